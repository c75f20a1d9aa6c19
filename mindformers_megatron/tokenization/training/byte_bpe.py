"""Byte-level BPE (Sennrich et al. 2016, on bytes as in GPT-2), trained by the ``tokenizers`` library.

The same texts and options give the same tokenizer, on any number of threads. The merges of a smaller vocabulary are the
first merges of a larger one.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.training.special_tokens import SpecialTokens
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer
from mindformers_megatron.tokenization.training.word_patterns import Digits, Style, pre_tokenizer, word_pattern

Normalization = Literal["none", "nfc", "nfkc"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)

_BYTES = 256
# A text is cut into words as a whole, in some 100 bytes of memory for each of its own.
_LONGEST_TEXT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteBpeOptions:
    """What is asked of the tokenizer.

    Attributes:
        vocab_size: ids wanted, special tokens and bytes included.
        special: the tokens that are not learned.
        pre_tokenizer: how text is cut into words; see ``word_pattern``.
        digits: how many digits a token may have; likewise.
        normalization: Unicode form that text is brought into before. Any but ``none`` changes texts for good.
        min_frequency: how often a pair must occur to be merged.
        max_token_bytes: the longest token; None: any.
        limit_alphabet: keep only so many of the 256 bytes, the most frequent ones. Every other byte becomes the unknown
            token, and its text cannot be got back. None: all of them, seen or not, so that there is no unknown text.
        hard_vocab_limit: refuse if the texts hold too few merges for the vocabulary; else make a smaller one.
    """

    vocab_size: int
    special: SpecialTokens
    pre_tokenizer: Style = "qwen"
    digits: Digits = "style"
    normalization: Normalization = "none"
    min_frequency: int = 2
    max_token_bytes: int | None = None
    limit_alphabet: int | None = None
    hard_vocab_limit: bool = True

    def __post_init__(self) -> None:
        word_pattern(self.pre_tokenizer, self.digits)
        if self.normalization not in NORMALIZATIONS:
            raise ConfigError(f"normalization {self.normalization!r} is none of: {', '.join(NORMALIZATIONS)}")
        if self.min_frequency < 1:
            raise ConfigError(f"min_frequency is {self.min_frequency}; give 1 or more")
        if self.max_token_bytes is not None and self.max_token_bytes < 2:
            raise ConfigError(f"max_token_bytes is {self.max_token_bytes}; a merge has 2 or more")
        limit = self.limit_alphabet
        if limit is not None and not 1 <= limit <= _BYTES:
            raise ConfigError(f"limit_alphabet is {limit}; a byte-level alphabet has 1 to {_BYTES} bytes")
        if limit is not None and "unk" not in self.special.tokens:
            raise ConfigError(
                "limit_alphabet leaves bytes without an id, which would vanish; give an unknown token too"
            )
        least = (limit or _BYTES) + len(self.special.texts)
        if self.vocab_size <= least:
            raise ConfigError(
                f"a vocabulary of {self.vocab_size} has no room for merges: bytes and special tokens are {least}"
            )


def train_byte_bpe(texts: Iterable[str], options: ByteBpeOptions) -> TrainedTokenizer:
    """Trains a byte-level BPE. Memory holds the distinct words of the texts, not the texts.

    Special tokens and user-defined symbols in the texts are not learned from.

    Args:
        texts: iterated over once; twice with ``limit_alphabet``.
        options: what is asked.

    Raises:
        ConfigError: the vocabulary cannot be as asked.
        DataError: there is no text.
    """
    import tokenizers

    placed = options.special.place(options.vocab_size)
    tokenizer = _blank(options, tokenizers.models.BPE())
    pieces = _Pieces(texts, options.special.texts)
    alphabet = _alphabet(pieces, tokenizer.normalizer, options.limit_alphabet)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=options.vocab_size - len(placed),
        min_frequency=options.min_frequency,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        # The library takes it for the first length that is too long.
        max_token_length=None if options.max_token_bytes is None else options.max_token_bytes + 1,
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(pieces, trainer)
    if not pieces.seen:
        raise DataError("there is no text to train on")
    model = json.loads(tokenizer.to_str())["model"]
    learned = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if len(learned) + len(placed) < options.vocab_size and options.hard_vocab_limit:
        raise ConfigError(
            f"the texts hold {len(learned) + len(placed)} ids (bytes, merges and special tokens), and the vocabulary "
            f"was to have {options.vocab_size}; ask for fewer, give more text, a lower --min-frequency, or "
            "--hard-vocab-limit false"
        )
    vocabulary = _arrange(learned, placed)
    merges = [tuple(merge) for merge in model["merges"]]
    final = _blank(
        options, tokenizers.models.BPE(vocab=vocabulary, merges=merges, unk_token=options.special.tokens.get("unk"))
    )
    control = set(options.special.tokens.values())
    final.add_special_tokens([token for token in options.special.texts if token in control])
    final.add_tokens([tokenizers.AddedToken(symbol, normalized=False) for symbol in options.special.user_defined])
    return TrainedTokenizer(
        tokenizer=final,
        roles=options.special.tokens,
        library="tokenizers",
        library_version=tokenizers.__version__,
        files=_gpt2_files(vocabulary, merges) if _is_gpt2(options) else {},
        findings={"merges": len(merges), "alphabet": len(alphabet)},
    )


class _Pieces:
    """Texts without the tokens that are not learned, cut to a size that can be worked on."""

    def __init__(self, texts: Iterable[str], special: list[str]) -> None:
        self.seen = False
        self._texts = texts
        longest_first = sorted(special, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first))) if special else None

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            for piece in self._special.split(text) if self._special else (text,):
                if piece:
                    self.seen = True
                    yield from _cut(piece)


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _LONGEST_TEXT:
        stop = text.rfind("\n", start, start + _LONGEST_TEXT) + 1 or start + _LONGEST_TEXT
        yield text[start:stop]
        start = stop
    yield text[start:]


def _blank(options: ByteBpeOptions, model: Any) -> Any:
    import tokenizers

    tokenizer = tokenizers.Tokenizer(model)
    if options.normalization != "none":
        tokenizer.normalizer = getattr(tokenizers.normalizers, options.normalization.upper())()
    tokenizer.pre_tokenizer = pre_tokenizer(options.pre_tokenizer, options.digits)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def _alphabet(pieces: Iterable[str], normalizer: Any, limit: int | None) -> list[str]:
    """The characters that bytes are written as, of all bytes or of the most frequent ones."""
    from tokenizers import pre_tokenizers

    characters = _byte_characters()
    if limit is None:
        return sorted(pre_tokenizers.ByteLevel.alphabet())
    # Not left to the library, which takes any of those that are equally frequent.
    counts = np.zeros(_BYTES, np.int64)
    for piece in pieces:
        text = normalizer.normalize_str(piece) if normalizer is not None else piece
        counts += np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=_BYTES)
    kept = np.argsort(-counts, kind="stable")[:limit]
    return sorted(characters[byte] for byte in kept)


def _byte_characters() -> list[str]:
    """The character that stands for each byte: itself where it can be seen, else one from U+0100 on (GPT-2)."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in seen else chr(next(others)) for byte in range(_BYTES)]


def _arrange(learned: list[str], placed: dict[str, int]) -> dict[str, int]:
    """Gives what was learned the ids that are left, in order."""
    taken = set(placed.values())
    for token in learned:
        if token in placed:
            raise ConfigError(f"special token {token!r} is a byte or a merge as well; choose another text for it")
    size = len(learned) + len(placed)
    if taken and max(taken) >= size:
        raise ConfigError(f"id {max(taken)} is asked for, but the vocabulary ends at {size - 1}")
    left = (id_ for id_ in range(size) if id_ not in taken)
    return {**placed, **dict(zip(learned, left, strict=True))}


def _is_gpt2(options: ByteBpeOptions) -> bool:
    """Whether vocabulary and merges alone, which is what GPT-2's two files are, say all."""
    return (options.pre_tokenizer, options.digits, options.normalization) == ("gpt2", "style", "none")


def _gpt2_files(vocabulary: dict[str, int], merges: list[tuple[str, ...]]) -> dict[str, bytes]:
    in_order = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges)]
    return {
        "vocab.json": json.dumps(in_order, ensure_ascii=False).encode(),
        "merges.txt": ("\n".join(lines) + "\n").encode(),
    }
