"""What each character is to a reader of words: a separator, a letter, or a sign of a script without spaces.

Two texts that differ in case, width (``Ａ`` and ``A``), punctuation or white space alone have the same words here. The
tables are over all code points, so that a batch of texts is classified by one array look-up. They follow the Unicode
data of the running Python; versions differ only in characters that were not assigned before.
"""

import functools
import unicodedata

import numpy as np
import numpy.typing as npt

SEPARATOR, LETTER, SIGN = 0, 1, 2

_CODE_POINTS = 0x110000
# Beyond these, no character has a case or a compatible form of one character.
_FOLDED = (range(0x20000), range(0x2F800, 0x2FA20))
_WORD_CATEGORIES = "LMN"

# Scripts written without spaces between words: every character is a word of its own. Not Hangul, which has spaces.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),  # Han iteration mark, closing mark, zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3031, 0x30FF),  # Kana
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31FF),  # Bopomofo, kana
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),  # Han
    (0xF900, 0xFAFF),  # Han
    (0xFF66, 0xFF9F),  # half-width kana
    (0x1AFF0, 0x1B16F),  # kana
    (0x20000, 0x3FFFF),  # Han
)


@functools.cache
def kinds() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: ``SEPARATOR``, ``LETTER`` or ``SIGN`` of each code point."""
    table = np.full(_CODE_POINTS, SEPARATOR, dtype=np.uint8)
    # Beyond plane 3 nothing is a letter.
    for code in range(0x40000):
        if unicodedata.category(chr(code))[0] in _WORD_CATEGORIES:
            table[code] = LETTER
    for first, last in _UNSPACED:
        table[first : last + 1][table[first : last + 1] == LETTER] = SIGN
    table.flags.writeable = False
    return table


@functools.cache
def folded() -> npt.NDArray[np.uint32]:
    """uint32[0x110000]: the code point that stands for each: in lower case, and in its compatible form (NFKC).

    Only forms of a single character are replaced, so that positions stay what they are.
    """
    table = np.arange(_CODE_POINTS, dtype=np.uint32)
    for codes in _FOLDED:
        for code in codes:
            character = chr(code)
            compatible = unicodedata.normalize("NFKC", character)
            if len(compatible) != 1:
                compatible = character
            lower = compatible.lower()
            table[code] = ord(lower if len(lower) == 1 else compatible)
    table.flags.writeable = False
    return table
