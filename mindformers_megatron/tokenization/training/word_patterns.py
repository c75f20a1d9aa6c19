"""How a byte-level BPE cuts text into words before it merges bytes within them."""

from typing import Any, Literal, get_args

from mindformers_megatron.errors import ConfigError

Style = Literal["gpt2", "qwen", "llama3"]
Digits = Literal["style", "1", "3"]
STYLES: tuple[str, ...] = get_args(Style)
DIGITS: tuple[str, ...] = get_args(Digits)

# The published patterns (GPT-2's encoder.py; tokenizer.json of Qwen 2 and of Llama 3), with a gap for the numbers. By
# this spelling fast engines recognize a tokenizer.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|NUMBERS| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_MODERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|NUMBERS| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_NUMBERS = {"gpt2": r" ?\p{N}+", "qwen": r"\p{N}", "llama3": r"\p{N}{1,3}", "1": r"\p{N}", "3": r"\p{N}{1,3}"}


def word_pattern(style: Style, digits: Digits = "style") -> str:
    """The pattern whose matches are the words.

    Args:
        style: whose. ``gpt2`` knows lower-case English contractions and takes a space along with a number; the other
            two ignore case, take any sign along with a word, and keep line ends with what is before them.
        digits: how many digits a token may have: ``"1"``, up to ``"3"``, or as the style has it (``gpt2`` any number,
            ``qwen`` 1, ``llama3`` up to 3).

    Raises:
        ConfigError: there is no such style.
    """
    if style not in STYLES:
        raise ConfigError(f"pre-tokenizer {style!r} is none of: {', '.join(STYLES)}")
    if digits not in DIGITS:
        raise ConfigError(f"digits {digits!r} is none of: {', '.join(DIGITS)}")
    pattern = _GPT2 if style == "gpt2" else _MODERN
    return pattern.replace("NUMBERS", _NUMBERS[style if digits == "style" else digits])


def pre_tokenizer(style: Style, digits: Digits = "style") -> Any:
    """The ``tokenizers`` object that cuts words and writes their bytes as characters; arguments as ``word_pattern``."""
    from tokenizers import Regex, pre_tokenizers

    pattern = word_pattern(style, digits)
    if style == "gpt2" and digits == "style":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
