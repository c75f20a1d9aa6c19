"""In which encoding a file is: by its mark, by escapes, as UTF-8, as it says itself, or by how its characters read.

One decision for a whole file, from a sample of it. A short line in GBK is valid UTF-8 by chance every so often, so
lines are no witnesses for themselves.
"""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mindformers_megatron.corpus.readers.legacy_encodings import (
    MULTIBYTE,
    SUPERSETS,
    decodes,
    first_bytes,
    guess_encoding,
)

SAMPLE_BYTES = 1 << 18

_MARKS = (
    (codecs.BOM_UTF8, "utf_8"),
    (codecs.BOM_UTF32_LE, "utf_32"),
    (codecs.BOM_UTF32_BE, "utf_32"),
    (codecs.BOM_UTF16_LE, "utf_16"),
    (codecs.BOM_UTF16_BE, "utf_16"),
)
# Seven-bit encodings, which are valid UTF-8 too; each is known by an escape that nothing else uses.
_ESCAPES = (
    (re.compile(rb"\x1b\$\)C"), "iso2022_kr"),
    (re.compile(rb"\x1b(?:\$[@B(]|\(J)"), "iso2022_jp_2004"),
    (re.compile(rb"~\{(?:[\x21-\x77][\x21-\x7e])+~\}"), "hz"),
)
_EDGE = re.compile(rb"[\x00-\x2f]")
_NON_ASCII = re.compile(rb"[\x80-\xff]")
# Lines that are not UTF-8, among those that are not ASCII, from which on a file counts as mixed rather than damaged.
_MIXED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the bytes of a file are read.

    Attributes:
        name: Python's name of the codec.
        mixed: whether some lines are UTF-8 all the same.
    """

    name: str = "utf_8"
    mixed: bool = False

    @property
    def is_utf8(self) -> bool:
        """Whether the bytes need no converting."""
        return self.name == "utf_8"

    @property
    def is_stateful(self) -> bool:
        """Whether a line cannot be read by itself: its end is not one byte, or it depends on what came before."""
        return self.name.startswith(("utf_16", "utf_32", "iso2022", "hz"))

    def decode(self, data: bytes) -> str:
        """Decodes a line or a file; its mark, if it has one, is no part of it.

        Raises:
            UnicodeDecodeError: there is something in it that this encoding does not have.
        """
        if self.mixed:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                pass
            else:
                # Fewer could be two bytes of the other encoding each.
                if sum(character > "\u07ff" for character in text) >= 3:
                    return text
        return data.decode(self.name).removeprefix("\ufeff")


UTF8 = Encoding()


def named_encoding(name: str) -> Encoding | None:
    """The encoding of that name or label, in the widest variant people mean by it; None if there is none."""
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    # Of rot13, hex and their like, which turn text into text or bytes into bytes.
    if not codec._is_text_encoding:
        return None
    python_name = codec.name.replace("-", "_")
    return Encoding(SUPERSETS.get(python_name, python_name))


def whole_characters(sample: bytes, *, is_first: bool = False) -> bytes:
    """A piece of a file without what may be parts of characters at its ends.

    Args:
        sample: some bytes.
        is_first: whether they are the beginning of the file.
    """
    # In no encoding that is cut here is a byte below "0" part of another character.
    first, last = _EDGE.search(sample), _EDGE.search(sample[::-1])
    if first is None or last is None:
        return b""
    return sample[0 if is_first else first.end() : len(sample) - last.start()]


def detect_encoding(samples: Sequence[bytes], *, declared: str | None = None) -> Encoding:
    """Tells the encoding of a file.

    Args:
        samples: all of it, or pieces of it in order, the first from its beginning, none of which begins or ends within
            a character (see ``whole_characters``).
        declared: what the file says itself, as in ``<meta charset>``.

    Returns:
        The encoding; UTF-8 also where nothing else fits, for the error to be about that.
    """
    head = samples[0] if samples else b""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Encoding(name)
    for pattern, name in _ESCAPES:
        if pattern.search(head) and _begins_in(head, name):
            return Encoding(name)
    if all(decodes(sample, "utf-8") for sample in samples):
        return UTF8
    lines = [line for sample in samples for line in sample.split(b"\n") if _NON_ASCII.search(line)]
    others = [line for line in lines if not decodes(line, "utf-8")]
    mixed = len(others) < len(lines)
    if mixed and len(others) < _MIXED_SHARE * len(lines):
        return UTF8
    named = named_encoding(declared) if declared else None
    if named and not named.is_utf8 and decodes(first_bytes(others), named.name):
        return Encoding(named.name, mixed=mixed)
    found = guess_encoding(others)
    if found is None or (mixed and found not in (*MULTIBYTE, "euc_kr")):
        return UTF8
    return Encoding(found, mixed=mixed)


def _begins_in(data: bytes, name: str) -> bool:
    """Whether data is the beginning of a text in an encoding, whatever it is cut in."""
    try:
        codecs.getincrementaldecoder(name)().decode(data, final=False)
    except UnicodeDecodeError:
        return False
    return True
