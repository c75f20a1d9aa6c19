"""Of what sort each character is: letters, digits, signs, the ends of sentences."""

import functools
import unicodedata

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.characters import SIGN, kinds
from mindformers_megatron.corpus.measures.texts import MeasuredTexts, ratio, word_counts, word_lengths
from mindformers_megatron.corpus.words import I64

LETTER, DIGIT, BLANK, CJK, MARK, ENDING, STOP, BULLET = (np.uint8(1 << bit) for bit in range(8))

_CODE_POINTS = 0x110000
# Beyond these planes nothing is assigned but variation selectors and private use.
_ASSIGNED = 0x33480
_ASCII = 0x7F
# What ends a sentence; and a line that ends one, with what may close behind it.
_STOPS = ".!?。！？؟।"
_ENDINGS = ".!?\"'”’…。！？；：．」』）〉》】︒؟۔।"
_BULLETS = "•‣▶▸►●○◦▪■□–-*·"
_ELLIPSIS = "…"
_HASH = "#"
_REPLACEMENT = 0xFFFD


@functools.cache
def table() -> NDArray[np.uint8]:
    """uint8[0x110000]: the flags above, for each code point."""
    flags = np.zeros(_CODE_POINTS, np.uint8)
    for code in range(_ASSIGNED):
        category = unicodedata.category(chr(code))[0]
        if category in "LM":
            flags[code] = LETTER
        elif category == "N":
            flags[code] = DIGIT
        elif category in "PS":
            flags[code] = MARK
        elif chr(code).isspace():
            flags[code] = BLANK
    flags[kinds() == SIGN] |= CJK
    for characters, flag in ((_ENDINGS, ENDING), (_STOPS, STOP), (_BULLETS, BULLET)):
        flags[[ord(character) for character in characters]] |= flag
    flags.flags.writeable = False
    return flags


def flags(texts: MeasuredTexts) -> NDArray[np.uint8]:
    """The flags of each character of the joined texts, uint8[C]."""
    return table().take(texts.words.codes)


def chunks(texts: MeasuredTexts) -> tuple[I64, I64]:
    """(where each run of what is not blank begins in the joined texts, int64[R]; where it ends (exclusive))."""
    ink = (texts.of(flags) & BLANK) == 0
    edges = np.flatnonzero(ink[1:] != ink[:-1]) + 1
    # A line end is behind the last text, but there is nothing before the first.
    edges = np.append(0, edges) if ink[0] else edges
    return edges[::2], edges[1::2]


def with_flag(texts: MeasuredTexts, flag: np.uint8) -> I64:
    """How many characters of each text have a flag, int64[D]."""
    found = (texts.of(flags) & flag) > 0
    bounds = texts.bounds.tolist()
    return np.fromiter(
        map(np.count_nonzero, map(found.__getitem__, map(slice, bounds, bounds[1:]))), np.int64, len(texts)
    )


def letters(texts: MeasuredTexts) -> I64:
    """Letters of each text, int64[D]."""
    return with_flag(texts, LETTER)


def marks(texts: MeasuredTexts) -> I64:
    """Punctuation and symbols in each text, int64[D]."""
    return with_flag(texts, MARK)


def visible(texts: MeasuredTexts) -> I64:
    """Characters that are not blank in each text, int64[D]."""
    return np.diff(texts.bounds) - with_flag(texts, BLANK)


def cjk(texts: MeasuredTexts) -> I64:
    """Characters of scripts without spaces in each text, int64[D]."""
    return with_flag(texts, CJK)


def are_cjk(texts: MeasuredTexts) -> NDArray[np.bool_]:
    """Which texts are written without spaces between words, bool[D]: most of their words are such characters."""
    return 2 * texts.of(cjk) > texts.of(word_counts)


def mean_word_lengths(texts: MeasuredTexts) -> NDArray[np.float64]:
    """Characters in a word of each text, float64[D], without those words that are one character of such a script."""
    found, single = texts.words, texts.of(cjk)
    characters = texts.sums(texts.of(word_lengths), found.offsets) - single
    return ratio(characters, texts.of(word_counts) - single)


def hashes_and_ellipses(texts: MeasuredTexts) -> I64:
    """How often each text has ``#`` or an ellipsis (``…``, ``...``), int64[D]."""
    codes = texts.words.codes
    dots = _three_dots(codes)
    return texts.count(np.flatnonzero((codes == ord(_HASH)) | (codes == ord(_ELLIPSIS)))) + texts.count(dots)


def _three_dots(codes: NDArray[np.uint32]) -> I64:
    """Where runs of three dots or more begin."""
    dot = np.flatnonzero(codes == ord("."))
    begins = dot[np.diff(dot, prepend=-2) != 1]
    return begins[(codes.take(begins + 1, mode="clip") == ord(".")) & (codes.take(begins + 2, mode="clip") == ord("."))]


def sentences(texts: MeasuredTexts) -> I64:
    """Sentences of each text, int64[D]: runs of their ends, behind which a blank follows unless the script has none."""
    codes, kind = texts.words.codes, texts.of(flags)
    stop = (kind & STOP) > 0
    last = np.flatnonzero(stop[:-1] & ~stop[1:])
    is_wide = codes[last] > _ASCII
    return texts.count(last[is_wide | ((kind[last + 1] & (BLANK | ENDING)) > 0)])


def alphabetic_shares(texts: MeasuredTexts) -> NDArray[np.float64]:
    """Of what stands between blanks in each text, that which has a letter in it, float64[D]."""
    starts, _ = texts.of(chunks)
    if not starts.size:
        return np.zeros(len(texts))
    has_letter = np.maximum.reduceat(texts.of(flags) & LETTER, starts) > 0
    return ratio(texts.count(starts[has_letter]), texts.count(starts))


def garbled(texts: MeasuredTexts) -> I64:
    """Replacement characters (U+FFFD) of each text, int64[D]."""
    return texts.count(np.flatnonzero(texts.words.codes == _REPLACEMENT))
