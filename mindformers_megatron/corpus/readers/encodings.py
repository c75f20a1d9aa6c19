"""In which encoding a file is: by its mark, by escapes, as UTF-8, as it says itself, or by how its characters read.

One decision for a whole file, from a sample of it. A short line in GBK is valid UTF-8 by chance every so often, so
lines are no witnesses for themselves.
"""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mindformers_megatron.corpus.languages import probability
from mindformers_megatron.corpus.optional import needed

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
# What people had before UTF-8, and the languages it was for; where two read alike, the first is taken. Each stands for
# the subsets of it that go by other names.
_CHINESE, _JAPANESE, _KOREAN = ("zh", "yue", "wuu"), ("ja",), ("ko",)
_MULTIBYTE = {
    "gb18030": _CHINESE,
    "big5hkscs": _CHINESE,
    "cp932": _JAPANESE,
    "shift_jis_2004": _JAPANESE,
    "euc_jp": _JAPANESE,
    "euc_jis_2004": _JAPANESE,
    "cp949": _KOREAN,
    "johab": _KOREAN,
}
_WESTERN = (
    "en",
    "fr",
    "de",
    "es",
    "pt",
    "it",
    "nl",
    "sv",
    "da",
    "no",
    "nn",
    "fi",
    "is",
    "ga",
    "ca",
    "gl",
    "eu",
    "af",
    "id",
)
_CENTRAL = ("pl", "cs", "sk", "hu", "sl", "hr", "bs", "ro", "sq", "sr", "sh")
_CYRILLIC = ("ru", "uk", "bg", "sr", "mk", "be")
_SINGLE_BYTE = {
    "cp1252": _WESTERN,
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp1251": _CYRILLIC,
    "koi8_r": ("ru", "bg"),
    "koi8_u": ("uk", "ru"),
    "cp866": _CYRILLIC,
    "iso8859_5": _CYRILLIC,
    "cp1253": ("el",),
    "iso8859_7": ("el",),
    "cp1254": ("tr", "az"),
    "cp1255": ("he", "yi"),
    "cp1256": ("ar", "fa", "ur"),
    "cp1257": ("et", "lv", "lt"),
    "cp1258": ("vi",),
    "cp874": ("th",),
}
_LANGUAGES = {**_MULTIBYTE, **_SINGLE_BYTE}
_ASKED = ("big5", "euc_kr", "tis_620", *_LANGUAGES)
_SUPERSETS = {
    "ascii": "utf_8",
    "utf_8_sig": "utf_8",
    "latin_1": "cp1252",
    "iso8859_1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "cp950": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "tis_620": "cp874",
}
# In EUC-KR, a syllable that has no code of its own is spelled out behind this filler; cp949 knows no such thing.
_COMPOSED_HANGUL = b"\xa4\xd4"
_HANGUL = re.compile(r"[\uac00-\ud7a3]")
_KANA = re.compile(r"[\u3041-\u30fe]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_BAD = re.compile(r"[\x80-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010ffff]")
_EDGE = re.compile(rb"[\x00-\x2f]")
_NON_ASCII_RUN = re.compile(rb"[\x80-\xff]+")
_RUNS = 6
_NON_ASCII = re.compile(rb"[\x80-\xff]")
# A word that begins with a vowel point or a tone mark, a Hebrew final letter within a word.
_IMPOSSIBLE = re.compile(
    "^[\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]|[\u05da\u05dd\u05df\u05e3\u05e5][\u05d0-\u05ea]"
)
_IMPOSSIBLE_SHARE = 0.05
_JUDGED_BYTES = 1 << 15
# Lines that are not UTF-8, among those that are not ASCII, from which on a file counts as mixed rather than damaged.
_MIXED_SHARE = 0.05
# Of CJK characters of the right script, for a decoding to pass.
_PLAUSIBLE = 0.6


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
    return Encoding(_SUPERSETS.get(python_name, python_name))


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
    name: str | None
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Encoding(name)
    for pattern, name in _ESCAPES:
        if pattern.search(head) and _begins_in(head, name):
            return Encoding(name)
    lines = [line for sample in samples for line in sample.split(b"\n") if _NON_ASCII.search(line)]
    others = [line for line in lines if not _decodes(line, "utf-8")]
    if not others:
        return UTF8
    mixed = len(others) < len(lines)
    if mixed and len(others) < _MIXED_SHARE * len(lines):
        return UTF8
    sample = _first_bytes(others)
    if declared and (named := named_encoding(declared)) and not named.is_utf8 and _decodes(sample, named.name):
        return Encoding(named.name, mixed=mixed)
    name = _guess(sample)
    if name == "cp949" and _COMPOSED_HANGUL in sample and _decodes(sample, "euc_kr"):
        name = "euc_kr"
    if name is None or (mixed and name not in (*_MULTIBYTE, "euc_kr")):
        return UTF8
    return Encoding(name, mixed=mixed)


def _guess(sample: bytes) -> str | None:
    """The legacy encoding of some lines none of which is UTF-8."""
    charset_normalizer = needed("charset_normalizer", "finding out the encoding of a file")
    matches = charset_normalizer.from_bytes(sample, cp_isolation=list(_ASKED))
    names = {_SUPERSETS.get(name, name) for match in matches for name in match.could_be_from_charset}
    # Of the encodings in which it looks like text at all, the one in which it is in a language that has that encoding.
    possible = _MULTIBYTE if _is_pairs(sample) else _LANGUAGES
    candidates = [name for name in possible if name in names and _decodes(sample, name)]
    if candidates:
        return max(candidates, key=lambda name: _likeness(sample.decode(name), _LANGUAGES[name]))
    # Texts in rare letters of a large script look like none to it.
    for name in ("cp949", "johab", "cp932", "euc_jp", "gb18030", "big5hkscs"):
        if _decodes(sample, name) and _reads(sample.decode(name), name):
            return name
    return None


def _is_pairs(sample: bytes) -> bool:
    """Whether bytes beyond ASCII only come in twos; words of an alphabet would not all be of even length."""
    runs = _NON_ASCII_RUN.findall(sample)
    return len(runs) >= _RUNS and not any(len(run) % 2 for run in runs)


def _likeness(text: str, languages: Sequence[str]) -> tuple[float, int]:
    """How much a text looks like one in these languages: the probability, and then the letters."""
    # What is plain ASCII reads the same in all encodings.
    words = [word for word in text.split() if not word.isascii()]
    joined = " ".join(words)
    # A script that only one language has looks like that language whatever is written in it.
    if sum(_IMPOSSIBLE.search(word) is not None for word in words) > _IMPOSSIBLE_SHARE * len(words):
        return 0.0, 0
    return round(probability(joined, languages), 2), sum(map(str.isalpha, joined))


def _reads(text: str, encoding: str) -> bool:
    """Whether a text could be in the language that an encoding is for."""
    if _BAD.search(text):
        return False
    wide = sum(character > "\u2fff" for character in text)
    hangul, kana, han = (len(script.findall(text)) for script in (_HANGUL, _KANA, _HAN))
    if encoding in ("cp949", "johab"):
        return hangul >= _PLAUSIBLE * wide > 0 and not kana
    if encoding in ("cp932", "euc_jp"):
        return kana >= (1 - _PLAUSIBLE) * wide > 0 and not hangul
    common = len(_HAN.findall(text.encode("gb2312" if encoding == "gb18030" else "big5", "ignore").decode(encoding)))
    return common >= _PLAUSIBLE * han > 0 and han >= _PLAUSIBLE * wide and not hangul


def _decodes(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _begins_in(data: bytes, name: str) -> bool:
    """Whether data is the beginning of a text in an encoding, whatever it is cut in."""
    try:
        codecs.getincrementaldecoder(name)().decode(data, final=False)
    except UnicodeDecodeError:
        return False
    return True


def _first_bytes(lines: Sequence[bytes]) -> bytes:
    chosen, size = [], 0
    for line in lines:
        chosen.append(line)
        size += len(line) + 1
        if size >= _JUDGED_BYTES:
            break
    return b"\n".join(chosen)
