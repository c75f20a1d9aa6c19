"""The encoding of a file is found out from its bytes, or it is named."""

import codecs
import importlib.util
from pathlib import Path

import pytest

from mindformers_megatron.corpus.readers.encodings import (
    UTF8,
    Encoding,
    detect_encoding,
    named_encoding,
    whole_characters,
)

TEXTS = {
    "ru": "Съешь же ещё этих мягких французских булок, да выпей чаю. Москва - столица России.",
    "de": "Über größere Änderungen müssen wir später sprechen; die Straße ist schön und weiß.",
    "fr": "Voilà une phrase française, écrite à la hâte par un garçon très pressé où ça ?",
    "pl": "Zażółć gęślą jaźń, proszę państwa, to jest zdanie po polsku z wieloma ogonkami.",
    "el": "Η Ελλάδα είναι μια χώρα στη νοτιοανατολική Ευρώπη και η πρωτεύουσα είναι η Αθήνα.",
    "tr": "Türkiye büyük bir ülkedir ve başkenti Ankara şehridir, çok güzel değil mi?",
    "zh": "这是一个中文句子。我们在这里测试编码检测。",
    "zh-TW": "這是一個中文句子。我們在這裡測試編碼偵測。",
    "yue": "佢哋喺度嘅嘢係唔係好啱你㗎？我哋聽日去旺角食飯啦。",
    "ja": "これは日本語の文章です。文字コードの判定を試験します。",
    "ko": "이것은 한국어 문장입니다. 문자 집합을 시험합니다.",
    "uk": "Усі люди народжуються вільними і рівними у своїй гідності та правах.",
    "bg": "Всички хора се раждат свободни и равни по достойнство и права.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "th": "ประเทศไทยเป็นประเทศที่อยู่ในเอเชียตะวันออกเฉียงใต้",
}
ENCODED = [
    *(("ru", name) for name in ("cp1251", "koi8-r", "cp866", "iso8859-5")),
    *(("de", name) for name in ("cp1252", "latin-1")),
    ("fr", "cp1252"),
    *(("pl", name) for name in ("cp1250", "iso8859-2")),
    *(("el", name) for name in ("cp1253", "iso8859-7")),
    ("tr", "cp1254"),
    *(("zh", name) for name in ("gb2312", "gbk", "gb18030", "hz", "utf-16", "utf-32")),
    *(("zh-TW", name) for name in ("big5", "cp950", "gb18030")),
    ("yue", "big5hkscs"),
    *(("ja", name) for name in ("shift_jis", "cp932", "euc-jp", "iso2022_jp", "utf-16")),
    *(("ko", name) for name in ("euc-kr", "cp949", "johab", "iso2022_kr")),
    *(("uk", "cp1251"), ("bg", "cp1251"), ("he", "cp1255"), ("ar", "cp1256"), ("th", "cp874")),
]


@pytest.mark.parametrize(("language", "encoding"), ENCODED)
def test_a_sentence_in_any_encoding_of_its_language_is_read(language: str, encoding: str) -> None:
    data = TEXTS[language].encode(encoding)
    assert detect_encoding([data]).decode(data) == TEXTS[language]


def cjkencodings() -> Path | None:
    """The folder of Python's own tests with a text in each encoding that it has for Chinese, Japanese and Korean."""
    found = importlib.util.find_spec("test")
    for place in (found.submodule_search_locations or []) if found else []:
        if (folder := Path(place, "cjkencodings")).is_dir():
            return folder
    return None


# A text of two lines with four rare signs: nothing tells it from GB18030.
TOLD_BY_NAME = {"big5hkscs"}


@pytest.mark.skipif(cjkencodings() is None, reason="this Python is installed without its tests")
def test_each_encoding_of_pythons_own_test_texts_is_read() -> None:
    folder = cjkencodings()
    assert folder is not None
    paths = [path for path in folder.glob("*.txt") if not path.stem.endswith("-utf8")]
    assert len(paths) >= 15
    for path in paths:
        data = path.read_bytes()
        found = named_encoding(path.stem) if path.stem in TOLD_BY_NAME else detect_encoding([data])
        expected = path.with_name(f"{path.stem}-utf8.txt").read_bytes().decode()
        assert found is not None
        assert found.decode(data) == expected, path.stem


def test_what_is_utf8_is_never_taken_for_anything_else() -> None:
    for text in ("", "plain ASCII\n", *TEXTS.values(), "~{not HZ~}", "a ~{ b ~} c"):
        assert detect_encoding([text.encode()]) == UTF8


def test_a_byte_order_mark_decides_and_is_no_part_of_the_text() -> None:
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ):
        data = mark + "中文 text".encode(name)
        assert detect_encoding([data]).decode(data) == "中文 text"


def test_a_damaged_line_of_a_utf8_file_does_not_make_it_another_encoding() -> None:
    good = "正しい行です。\n".encode()
    assert detect_encoding([good * 100 + good[1:] + good * 100]) == UTF8


def test_a_file_pasted_together_of_two_encodings_is_read_line_by_line() -> None:
    lines = ["这是第一个文件里的一行文字。", "这是第二个文件里的一行文字。"]
    data = (lines[0] + "\n").encode() * 20 + (lines[1] + "\n").encode("gbk") * 20
    found = detect_encoding([data])
    assert found == Encoding("gb18030", mixed=True)
    assert {found.decode(line) for line in data.splitlines()} == set(lines)


def test_a_short_line_of_a_gbk_file_is_gbk_even_where_it_would_be_valid_utf8() -> None:
    lines = [character for code in range(0x4E00, 0x9FA5) if (character := chr(code)).encode("gbk")[0] < 0xE0]
    chance = [line for line in lines if _is_utf8(line.encode("gbk"))]
    assert len(chance) > 100
    data = "\n".join([*chance, TEXTS["zh"] * 3]).encode("gbk")
    found = detect_encoding([line for line in data.split(b"\n") if not _is_utf8(line)])
    assert found == Encoding("gb18030")
    assert [found.decode(line.encode("gbk")) for line in chance] == chance


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_what_a_page_declares_is_believed_if_it_can_be_read_so() -> None:
    data = "naïve café".encode("cp1252")
    assert detect_encoding([data], declared="ISO-8859-1").name == "cp1252"
    assert detect_encoding([TEXTS["zh"].encode("gbk")], declared="utf-8").name == "gb18030"
    assert detect_encoding([TEXTS["zh"].encode("gbk")], declared="gb2312").name == "gb18030"
    assert detect_encoding([TEXTS["zh"].encode("gbk")], declared="no such thing").name == "gb18030"


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "big5", "cp932", "euc-jp", "cp949"])
def test_a_piece_of_a_file_is_trimmed_to_whole_characters(encoding: str) -> None:
    text = {"big5": TEXTS["zh-TW"], "cp932": TEXTS["ja"], "euc-jp": TEXTS["ja"], "cp949": TEXTS["ko"]}.get(
        encoding, TEXTS["zh"]
    )
    data = " ".join(text).encode(encoding)
    for start in range(12):
        for stop in range(len(data) - 12, len(data)):
            piece = whole_characters(data[start:stop])
            assert piece.decode(encoding).strip() in " ".join(text)


def test_names_stand_for_the_widest_variant_that_people_mean() -> None:
    assert named_encoding("GB2312") == named_encoding("gbk") == Encoding("gb18030")
    assert named_encoding("latin1") == Encoding("cp1252")
    assert named_encoding("UTF-8") == UTF8
    assert named_encoding("rot13") is None
    assert named_encoding("klingon") is None
