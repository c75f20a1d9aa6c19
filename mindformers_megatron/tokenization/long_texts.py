"""Encoding a very long text in windows, to the same ids.

``tokenizers`` needs over a hundred bytes of memory for each byte of a text. So a text of a gigabyte is cut, where a cut
changes nothing: between two words of the pre-tokenizer, which the model encodes independently of each other.
Pre-tokenizers look for words from left to right. So a window is encoded with a margin behind it, and the cut is where
its last word before the margin begins; and the margin, encoded afresh from there, must give the same ids again. If it
does not (a prefix is put before each text, for example), earlier words are tried, and then a larger window.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Encoding

LONG_TEXT = 1 << 20
_WINDOW = 1 << 17
_MARGIN = 1 << 13
_CUTS_TRIED = 8


def encode_in_windows(
    encode: "Callable[[str], Encoding]", text: str, *, window: int = _WINDOW, margin: int = _MARGIN
) -> NDArray[np.int32]:
    """Encodes a text in windows.

    Args:
        encode: encodes a text without adding special tokens.
        text: the text.
        window: characters encoded at a time, more where that many have no good cut.
        margin: characters behind a window that are encoded with it; more than the longest added token has.

    Returns:
        The ids of the whole text, int32[N].
    """
    pieces = []
    start, size = 0, window
    while len(text) - start > size + margin:
        part = text[start : start + size + margin]
        encoding = encode(part)
        ids = encoding.ids
        cut = _find_cut(encode, part, encoding, ids, size)
        if cut is None:
            size *= 2
            continue
        token, character = cut
        pieces.append(np.asarray(ids[:token], np.int32))
        start, size = start + character, window
    pieces.append(np.asarray(encode(text[start:]).ids, np.int32))
    return np.concatenate(pieces)


def _find_cut(
    encode: "Callable[[str], Encoding]", part: str, encoding: "Encoding", ids: list[int], window: int
) -> tuple[int, int] | None:
    """The last good cut of a window: (tokens before it, characters before it)."""
    # Asked token by token: lists of all words and offsets would take as long as the encoding.
    tried = 0
    for token in range(len(ids) - 1, 0, -1):
        begin, end_before = encoding.token_to_chars(token)[0], encoding.token_to_chars(token - 1)[1]
        if begin > window or begin != end_before or encoding.token_to_word(token) == encoding.token_to_word(token - 1):
            continue
        if encode(part[begin:]).ids == ids[token:]:
            return token, begin
        tried += 1
        if tried == _CUTS_TRIED:
            return None
    return None
