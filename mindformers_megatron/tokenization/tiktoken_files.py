"""Opening tiktoken's files, which hold ranks, and neither how words are split nor the special tokens."""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.engines.tiktoken import GPT2_PATTERN
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

if TYPE_CHECKING:
    from tiktoken import Encoding

_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
_O200K = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# The patterns that Megatron calls v1 and v2.
_V1 = r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
_V2 = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_MEGATRON_SPECIAL = ("<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>")


def _llama3_special(first: int) -> dict[str, int]:
    named = {0: "begin_of_text", 1: "end_of_text", 6: "start_header_id", 7: "end_header_id", 9: "eot_id"}
    reserved = iter(range(256))
    names = [named.get(place) or f"reserved_special_token_{next(reserved)}" for place in range(256)]
    return {f"<|{name}|>": first + place for place, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class _Scheme:
    """What the code around a file of ranks says: the pattern, the special tokens by the number of ranks, the EOD."""

    pattern: str
    special: Callable[[int], dict[str, int]]
    eod: str = "<|endoftext|>"


_SCHEMES = {
    "gpt2": _Scheme(GPT2_PATTERN, lambda first: {"<|endoftext|>": 50256}),
    "r50k_base": _Scheme(GPT2_PATTERN, lambda first: {"<|endoftext|>": 50256}),
    "p50k_base": _Scheme(GPT2_PATTERN, lambda first: {"<|endoftext|>": 50256}),
    "cl100k_base": _Scheme(
        _CL100K,
        lambda first: {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": _Scheme(_O200K, lambda first: {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
    "llama3": _Scheme(_LLAMA3, _llama3_special, "<|end_of_text|>"),
}
_MEGATRON_PATTERNS = {"v1": _V1, "v2": _V2}


@dataclass(frozen=True, slots=True)
class TiktokenFiles:
    """An opened tiktoken vocabulary.

    Attributes:
        encoding: what encodes.
        special_tokens: id by name.
        eod: the one that ends a document.
    """

    encoding: "Encoding"
    special_tokens: dict[str, int]
    eod: str


def load_tiktoken(path: Path, spec: TokenizerSpec) -> TiktokenFiles:
    """Opens a file of tiktoken's: ranks in base64 (``.tiktoken``), or Megatron's in JSON.

    Raises:
        DataError: it is damaged.
        ConfigError: tiktoken is not installed, or the pattern is not known.
    """
    try:
        import tiktoken
    except ImportError:
        raise ConfigError(f"{path}: needs the tiktoken package; pip install tiktoken") from None
    try:
        if path.suffix == ".json":
            pattern, ranks, special, eod = _from_json(path, spec)
        else:
            pattern, ranks, special, eod = _from_ranks(path, spec)
        encoding = tiktoken.Encoding(path.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        return TiktokenFiles(encoding, special, eod)
    except (KeyError, TypeError, IndexError, AssertionError, binascii.Error, OSError) as error:
        raise DataError(f"{path}: is no tiktoken vocabulary: {type(error).__name__} {error}") from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise DataError(f"{path}: is no tiktoken vocabulary: {error}") from None


_Loaded = tuple[str, dict[bytes, int], dict[str, int], str]


def _from_ranks(path: Path, spec: TokenizerSpec) -> _Loaded:
    name = spec.tiktoken_pattern or path.name.removesuffix(".tiktoken")
    scheme = _SCHEMES.get(name)
    if scheme is None:
        raise ConfigError(
            f"{path}: does not say how words are split; give --tiktoken-pattern, one of {', '.join(_SCHEMES)}"
        )
    ranks = {}
    for line in path.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
    return scheme.pattern, ranks, scheme.special(len(ranks)), scheme.eod


def _from_json(path: Path, spec: TokenizerSpec) -> _Loaded:
    name = spec.tiktoken_pattern or "v2"
    if name not in _MEGATRON_PATTERNS:
        raise ConfigError(
            f"--tiktoken-pattern {name}: for a vocabulary in JSON, one of {', '.join(_MEGATRON_PATTERNS)}"
        )
    special = list(spec.tiktoken_special_tokens or _MEGATRON_SPECIAL)
    first = spec.tiktoken_num_special_tokens
    if len(special) > first or "</s>" not in special:
        raise ConfigError(f"--tiktoken-special-tokens: at most {first}, with </s>, which ends a document, among them")
    special += [f"<SPECIAL_{place}>" for place in range(len(special), first)]
    entries = json.loads(path.read_text(encoding="utf-8"))
    if spec.vocab_size is not None:
        entries = entries[: max(spec.vocab_size - first, 0)]
    ranks = {base64.b64decode(entry["token_bytes"], validate=True): first + entry["rank"] for entry in entries}
    return _MEGATRON_PATTERNS[name], ranks, {token: id_ for id_, token in enumerate(special)}, "</s>"
