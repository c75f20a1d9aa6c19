"""What people wrote in before UTF-8: which of these encodings some lines are in, told by how they read."""

import re
from collections.abc import Sequence

from mindformers_megatron.corpus.languages import probability
from mindformers_megatron.corpus.optional import needed

# What people had before UTF-8, and the languages it was for; where two read alike, the first is taken. Each stands for
# the subsets of it that go by other names.
_CHINESE, _JAPANESE, _KOREAN = ("zh", "yue", "wuu"), ("ja",), ("ko",)
MULTIBYTE = {
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
_LANGUAGES = {**MULTIBYTE, **_SINGLE_BYTE}
_ASKED = ("big5", "euc_kr", "tis_620", *_LANGUAGES)
SUPERSETS = {
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
_NON_ASCII_RUN = re.compile(rb"[\x80-\xff]+")
_RUNS = 6
# A word that begins with a vowel point or a tone mark, a Hebrew final letter within a word.
_IMPOSSIBLE = re.compile(
    "^[\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]|[\u05da\u05dd\u05df\u05e3\u05e5][\u05d0-\u05ea]"
)
_IMPOSSIBLE_SHARE = 0.05
_JUDGED_BYTES = 1 << 15
# Of CJK characters of the right script, for a decoding to pass.
_PLAUSIBLE = 0.6


def guess_encoding(lines: Sequence[bytes]) -> str | None:
    """The encoding of some lines none of which is UTF-8, None if it is none that is known.

    ``charset-normalizer`` says in which encodings they look like text at all; of those it is the one in which they are
    in a language that has that encoding.
    """
    sample = first_bytes(lines)
    name = _guess(sample)
    return "euc_kr" if name == "cp949" and _COMPOSED_HANGUL in sample and decodes(sample, "euc_kr") else name


def _guess(sample: bytes) -> str | None:
    charset_normalizer = needed("charset_normalizer", "finding out the encoding of a file")
    matches = charset_normalizer.from_bytes(sample, cp_isolation=list(_ASKED))
    names = {SUPERSETS.get(name, name) for match in matches for name in match.could_be_from_charset}
    possible = MULTIBYTE if _is_pairs(sample) else _LANGUAGES
    candidates = [name for name in possible if name in names and decodes(sample, name)]
    if candidates:
        return max(candidates, key=lambda name: _likeness(sample.decode(name), _LANGUAGES[name]))
    # Texts in rare letters of a large script look like none to it.
    for name in ("cp949", "johab", "cp932", "euc_jp", "gb18030", "big5hkscs"):
        if decodes(sample, name) and _reads(sample.decode(name), name):
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


def decodes(data: bytes, name: str) -> bool:
    """Whether bytes are valid in an encoding."""
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def first_bytes(lines: Sequence[bytes]) -> bytes:
    """As many lines as are looked at."""
    chosen, size = [], 0
    for line in lines:
        chosen.append(line)
        size += len(line) + 1
        if size >= _JUDGED_BYTES:
            break
    return b"\n".join(chosen)
