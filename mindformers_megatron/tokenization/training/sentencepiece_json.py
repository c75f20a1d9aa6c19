"""A SentencePiece model as a ``tokenizer.json``, which the ``tokenizers`` library reads and which gives the same ids.

SentencePiece treats a text as one string in which a space is the character ``▁``. All that it does to the text before
looking for pieces is put into the normalizer here, so that added tokens, which split a text, cannot come between.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from mindformers_megatron.tokenization.training.sentencepiece_model import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)

# Below any sum of scores of pieces that a text could be cut into otherwise: what is no text must not be found in one.
_NEVER = -1e9
_ALL = 1 << 30


def to_tokenizer(model: SentencePieceModel) -> Any:
    """Builds a ``tokenizers.Tokenizer`` of a BPE or unigram model.

    Ids are the same, but for a control symbol (``</s>``) that stands literally in a text: it is found there, as by any
    tokenizer of that library, and is plain text to SentencePiece. Rarely they differ where a unigram model can cut a
    text in two ways of the same score, in sequences of characters that are one after normalization, and for a text that
    is a user-defined symbol and nothing else.
    """
    import tokenizers

    tokenizer = tokenizers.Tokenizer(_bpe(model) if model.kind == BPE else _unigram(model))
    tokenizer.normalizer = tokenizers.normalizers.Sequence(list(_normalizers(model)))
    # Where no piece reaches over a space, cutting there changes nothing but the time it takes.
    if not any(SPACE in piece.text[1:] for piece in model.pieces if piece.kind == NORMAL):
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(SPACE, prepend_scheme="never", split=True)
    tokenizer.decoder = tokenizers.decoders.Sequence(list(_decoders(model)))
    tokenizer.add_special_tokens(
        [_added(piece, special=True) for piece in model.pieces if piece.kind in (CONTROL, UNKNOWN)]
    )
    tokenizer.add_tokens([_added(piece, special=False) for piece in model.pieces if piece.kind == USER_DEFINED])
    return tokenizer


def _added(piece: Piece, *, special: bool) -> Any:
    import tokenizers

    # Looked for in the normalized text, so that the text is normalized as one: else each piece between two symbols
    # would get a dummy prefix, which could not be told from a space when they are put together again.
    return tokenizers.AddedToken(piece.text, special=special, normalized=True)


def _bpe(model: SentencePieceModel) -> Any:
    import tokenizers

    return tokenizers.models.BPE(
        vocab={piece.text: id_ for id_, piece in enumerate(model.pieces)},
        merges=merges_of(model.pieces),
        unk_token=next(piece.text for piece in model.pieces if piece.kind == UNKNOWN),
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
    )


def merges_of(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """The merges behind the pieces of a BPE model, which lists the results alone: the best results first."""
    known = {piece.text for piece in pieces if piece.kind == NORMAL}
    merges = []
    for piece in sorted((p for p in pieces if p.kind == NORMAL), key=lambda p: -p.score):
        for cut in range(1, len(piece.text)):
            left, right = piece.text[:cut], piece.text[cut:]
            if left in known and right in known:
                merges.append((left, right))
    return merges


def _unigram(model: SentencePieceModel) -> Any:
    import tokenizers

    vocabulary = [(p.text, p.score if p.kind in (NORMAL, USER_DEFINED) else _NEVER) for p in model.pieces]
    unknown = next(id_ for id_, piece in enumerate(model.pieces) if piece.kind == UNKNOWN)
    return tokenizers.models.Unigram(vocabulary, unknown, model.byte_fallback)


def _normalizers(model: SentencePieceModel) -> Iterator[Any]:
    from tokenizers import Regex, normalizers

    if model.charsmap:
        yield normalizers.Precompiled(model.charsmap)
    if model.remove_extra_whitespaces:
        # At the end it takes a literal ``▁`` for a space too.
        yield normalizers.Replace(Regex(rf"\A +|[ {SPACE}]+\z"), "")
        yield normalizers.Replace(Regex(" {2,}"), " ")
    if model.add_dummy_prefix:
        # The symbols themselves are normalized too, to be looked for; they must stay what they are.
        but = [rf"{re.escape(piece.text)}\z" for piece in model.pieces if piece.kind == USER_DEFINED]
        but += [re.escape(piece.text) for piece in model.pieces if piece.kind in (CONTROL, UNKNOWN)]
        yield normalizers.Replace(Regex(rf"\A(?!{'|'.join(but)})(?=[\s\S])"), SPACE)
    yield normalizers.Replace(" ", SPACE)


def _decoders(model: SentencePieceModel) -> Iterator[Any]:
    from tokenizers import decoders

    yield decoders.Replace(SPACE, " ")
    if any(piece.kind == BYTE for piece in model.pieces):
        yield decoders.ByteFallback()
    yield decoders.Fuse()
    if model.remove_extra_whitespaces or model.add_dummy_prefix:
        yield decoders.Strip(" ", _ALL if model.remove_extra_whitespaces else 1, 0)
