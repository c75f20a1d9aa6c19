"""Whatever the files look like, their documents come in order, once, with id, meta and origin; bad ones are told."""

import bz2
import datetime
import gzip
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.readers.cutting import plan_parts
from mindformers_megatron.corpus.readers.reading import read_part
from mindformers_megatron.corpus.readers.sources import Source
from mindformers_megatron.corpus.rejects import Reject, Rejects
from mindformers_megatron.errors import ConfigError, DataError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def read(source: Source, *, part_bytes: int = 64 << 20, allowed: int | None = 0) -> tuple[list[Document], list[Reject]]:
    rejects = Rejects(allowed)
    parts = plan_parts(source, part_bytes=part_bytes)
    assert [part.number for part in parts] == list(range(len(parts)))
    return [document for part in parts for document in read_part(part, rejects.add)], rejects.found


def jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


RECORDS = [
    {"text": "first", "id": "a", "meta": {"source": "paper", "n": 1.5}},
    {"text": "第二", "url": "https://example.com/x", "other": 1},
    {"text": ["two", "sentences"], "id": 7},
]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_jsonl_is_read_plain_and_compressed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(COMPRESS[suffix](jsonl(*RECORDS)))
    documents, _ = read(Source(paths=(str(path),), name="web"))
    assert [document.text for document in documents] == ["first", "第二", "two\nsentences"]
    assert [document.id for document in documents] == ["a", f"a.jsonl{suffix}:2", "7"]
    assert [document.meta for document in documents] == [RECORDS[0]["meta"], {"url": "https://example.com/x"}, {}]
    assert {document.source for document in documents} == {"web"}
    assert documents[1].origin == Origin(str(path), 2, len(jsonl(RECORDS[0])))


def test_without_a_name_the_source_is_what_the_record_says(tmp_path: Path) -> None:
    (tmp_path / "mix.jsonl").write_bytes(jsonl(*RECORDS, {"text": "x", "source": "code"}))
    documents, _ = read(Source(paths=(str(tmp_path),)))
    assert [document.source for document in documents] == ["paper", "mix", "mix", "code"]


def test_text_id_and_meta_may_have_any_names(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl({"body": "t", "key": 3, "lang": "en", "meta": {"lang": "de"}, "n": None}))
    source = Source(paths=(str(tmp_path),), text_key="body", id_key="key", meta_keys=("lang", "n", "absent"))
    ((document,), _) = read(source)
    assert (document.text, document.id, document.meta) == ("t", "3", {"lang": "de"})


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030", "utf-16", "iso2022_jp"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_jsonl_in_other_encodings_is_read(tmp_path: Path, encoding: str, suffix: str) -> None:
    texts = ["汉字 and ASCII " * 3 if encoding != "iso2022_jp" else "漢字かな交じり文", "plain", "表\\示" * 5]
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    (tmp_path / f"a.jsonl{suffix}").write_bytes(COMPRESS[suffix](lines.encode(encoding)))
    documents, _ = read(Source(paths=(str(tmp_path),)))
    assert [document.text for document in documents] == texts
    assert [document.origin.line for document in documents] == [1, 2, 3]


@settings(max_examples=40)
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=30),
    part_bytes=st.integers(1, 200),
    end=st.sampled_from(["\n", ""]),
)
def test_cuts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], part_bytes: int, end: str
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": line}, ensure_ascii=False) for line in lines) + end)
    source = Source(paths=(str(path),))
    whole, _ = read(source)
    assert [document.text for document in whole] == lines
    assert read(source, part_bytes=part_bytes)[0] == whole


def test_a_large_file_in_another_encoding_is_cut_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*({"text": f"第{n}行，一些中文文字。"} for n in range(2000))).decode().encode("gbk"))
    source = Source(paths=(str(path),))
    whole, _ = read(source)
    assert [document.origin.line for document in whole] == list(range(1, 2001))
    assert len(plan_parts(source, part_bytes=7000)) > 5
    assert read(source, part_bytes=7000)[0] == whole


def test_records_that_are_none_are_told_with_file_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        """{"text": "gööd"}\n\n{"text": 5}\nnot JSON\n""".encode() + b"""{"text": "\xff"}\n{"text": "last"}\n"""
    )
    documents, rejects = read(Source(paths=(str(path),)), allowed=None)
    assert [document.text for document in documents] == ["gööd", "last"]
    assert [(reject.file, reject.line, reject.byte_offset) for reject in rejects] == [
        (str(path), 3, 20),
        (str(path), 4, 32),
        (str(path), 5, 41),
    ]
    assert "'text' is a number, not a string" in rejects[0].reason
    assert "not valid UTF-8" in rejects[2].reason
    with pytest.raises(DataError, match=re.escape(f"{path}, line 3 (byte 20): 'text' is a number")):
        read(Source(paths=(str(path),)))
    with pytest.raises(DataError, match=r"line 5 .*allows 2 bad records"):
        read(Source(paths=(str(path),)), allowed=2)


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
def test_a_cut_off_or_damaged_archive_is_one_line(tmp_path: Path, suffix: str) -> None:
    data = COMPRESS[suffix](jsonl(*({"text": f"{n} {n * n % 977}"} for n in range(50_000))))
    path = tmp_path / f"a.jsonl{suffix}"
    damaged = bytearray(data)
    damaged[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    for bad in (data[:-20], data[: len(data) // 2], bytes(damaged)):
        path.write_bytes(bad)
        with pytest.raises(DataError) as error:
            read(Source(paths=(str(path),)), allowed=None)
        assert str(error.value).startswith(str(path))
        assert "\n" not in str(error.value)


def test_archives_of_several_members_and_wrongly_named_files_are_read(tmp_path: Path) -> None:
    for suffix, compress in COMPRESS.items():
        (tmp_path / f"a{suffix or '.x'}").write_bytes(compress(jsonl({"text": "1"})) + compress(jsonl({"text": "2"})))
        documents, _ = read(Source(paths=(str(tmp_path / f"a{suffix or '.x'}"),), format="jsonl"))
        assert [document.text for document in documents] == ["1", "2"], suffix


def test_parquet_is_read_by_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "text": [f"row {n}" for n in range(1000)],
        "id": list(range(1000)),
        "meta": [{"day": datetime.date(2024, 1, 1 + n % 28)} for n in range(1000)],
        "url": ["https://example.com"] * 1000,
    }
    pq.write_table(pa.table(columns), path, row_group_size=100)
    source = Source(paths=(str(path),), name="web")
    documents, _ = read(source)
    assert [document.text for document in documents] == columns["text"]
    assert documents[27].id == "27"
    assert documents[27].meta == {"day": "2024-01-28", "url": "https://example.com"}
    assert documents[27].origin == Origin(str(path), 28, -1)
    assert len(plan_parts(source, part_bytes=4000)) > 2
    assert read(source, part_bytes=4000)[0] == documents


def test_parquet_without_texts_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", None, "b"], "n": [1, 2, 3]}), path)
    documents, (reject,) = read(Source(paths=(str(path),)), allowed=None)
    assert [document.id for document in documents] == ["a.parquet:1", "a.parquet:3"]
    assert (reject.line, reject.reason) == (2, "'text' is null")
    with pytest.raises(DataError, match=r"no column 'body' \(its columns: text, n\)"):
        read(Source(paths=(str(path),), text_key="body"))
    with pytest.raises(DataError, match="column 'n' is of type int64, not text"):
        read(Source(paths=(str(path),), text_key="n"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read(Source(paths=(str(path),)))


def test_plain_text_is_read_by_file_paragraph_or_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\ntwo\n\n \n  three\r\nfour")
    texts = {
        "file": ["one\ntwo\n\n \n  three\r\nfour"],
        "paragraph": ["one\ntwo", "  three\r\nfour"],
        "line": ["one", "two", "  three", "four"],
    }
    lines = {"file": [1], "paragraph": [1, 5], "line": [1, 2, 5, 6]}
    for unit, expected in texts.items():
        documents, _ = read(Source(paths=(str(path),), document=unit))  # type: ignore[arg-type]
        assert [document.text for document in documents] == expected
        assert [document.origin.line for document in documents] == lines[unit]
    raw = path.read_bytes()
    for document in documents:
        assert raw[document.origin.byte_offset :].startswith(document.text.encode())


def test_a_folder_of_pages_is_read_in_the_order_of_names_each_in_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "a.html").write_bytes("<meta charset=gb2312><p>汉字网页</p>".encode("gbk"))
    (tmp_path / "b" / "c" / "deep.htm").write_bytes(b'<meta charset="iso-8859-1"><p>caf\xe9</p>')
    (tmp_path / "b" / "ignored.css").write_text("p {}")
    documents, _ = read(Source(paths=(str(tmp_path),), format="html", name="docs"))
    assert [document.id for document in documents] == ["a.html", "b/c/deep.htm"]
    assert documents[0].text == "<meta charset=gb2312><p>汉字网页</p>"
    assert "café" in documents[1].text


def test_small_files_are_read_together_and_large_ones_alone(tmp_path: Path) -> None:
    for n in range(10):
        (tmp_path / f"{n}.txt").write_text("x" * 100)
    parts = plan_parts(Source(paths=(str(tmp_path),)), part_bytes=250)
    assert [len(part.slices) for part in parts] == [2] * 5


def test_a_file_that_cannot_be_decoded_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good line\n" * 100 + "汉字\n".encode() * 100 + b"\xff bad")
    documents, (reject,) = read(Source(paths=(str(tmp_path),)), allowed=None)
    assert documents == []
    assert "it is not valid utf_8: byte 0xff at byte" in reject.reason


def test_a_file_that_was_changed_after_planning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl({"text": "x"}))
    (part,) = plan_parts(Source(paths=(str(path),)))
    path.write_bytes(jsonl({"text": "xy"}))
    with pytest.raises(DataError, match="was changed"):
        list(read_part(part, Rejects().add))


def test_what_cannot_be_read_is_told_when_parts_are_planned(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file in this folder"):
        plan_parts(Source(paths=(str(tmp_path),)))
    with pytest.raises(DataError, match="absent"):
        plan_parts(Source(paths=(str(tmp_path / "absent.jsonl"),)))
    (tmp_path / "a.xyz").write_text("x")
    with pytest.raises(ConfigError, match="its format cannot be told"):
        plan_parts(Source(paths=(str(tmp_path / "a.xyz"),)))
    with pytest.raises(ConfigError, match="encoding is 'klingon'"):
        Source(paths=("x",), encoding="klingon")


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "cp932", "cp1251"])
def test_the_encoding_of_a_large_file_is_told_from_samples_all_over_it(tmp_path: Path, encoding: str) -> None:
    text = {"cp932": "かな交じりの文章です", "cp1251": "Русский текст, много слов"}.get(encoding, "中文句子，很多汉字")
    path = tmp_path / "a.jsonl"
    plain = json.dumps({"text": "only ASCII here " * 20}).encode() + b"\n"
    foreign = json.dumps({"text": text * 20}, ensure_ascii=False).encode(encoding) + b"\n"
    path.write_bytes(plain * 2000 + foreign * 3000 + plain * 500)
    documents, rejects = read(Source(paths=(str(path),)), part_bytes=300_000, allowed=None)
    assert rejects == []
    assert len(documents) == 5500
    assert {document.text for document in documents[2000:5000]} == {text * 20}
    assert [document.origin.line for document in documents] == list(range(1, 5501))


def test_a_large_file_of_long_lines_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = json.dumps({"text": "中文句子，" * 60_000}, ensure_ascii=False).encode() + b"\n"
    path.write_bytes(line * 3)
    documents, _ = read(Source(paths=(str(path),)), part_bytes=500_000)
    assert [len(document.text) for document in documents] == [300_000] * 3
