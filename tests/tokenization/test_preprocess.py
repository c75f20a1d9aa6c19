"""Whole runs: real inputs, real workers, real files."""

import hashlib
import json
import multiprocessing
import shutil
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter
from mindformers_megatron.tokenization.preprocess import PreprocessReport, PreprocessSpec, preprocess
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

WriteLines = Callable[..., Path]

GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess"
TOKENIZER = TokenizerSpec(path=GOLDEN / "tokenizer")


def run(inputs: Sequence[Path] | Path, prefix: Path, **options: Any) -> PreprocessReport:
    inputs = [inputs] if isinstance(inputs, Path) else inputs
    options = {"tokenizer": TOKENIZER, "workers": 1} | options
    return preprocess(PreprocessSpec(inputs=inputs, output_prefix=str(prefix), **options))


def documents(prefix: Path, key: str = "text") -> list[list[int]]:
    dataset = IndexedDataset(f"{prefix}_{key}_document")
    bounds = dataset.index.document_indices
    return [
        [int(id_) for sequence in range(start, stop) for id_ in dataset[sequence]] for start, stop in pairwise(bounds)
    ]


def encoded(*texts: str, eod: bool = False) -> list[list[int]]:
    engine = open_tokenizer(TOKENIZER).engine
    return [engine.encode([text])[0].tolist() + [0] * (eod and bool(text)) for text in texts]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("append_eod", [False, True], ids=["plain", "eod"])
@pytest.mark.parametrize("part_bytes", [10_000, None])
def test_the_pair_is_megatrons_byte_for_byte(
    workers: int, append_eod: bool, part_bytes: int | None, tmp_path: Path
) -> None:
    run(GOLDEN / "input.jsonl", tmp_path / "out", append_eod=append_eod, workers=workers, part_bytes=part_bytes)
    for suffix in ("bin", "idx"):
        expected = (GOLDEN / f"{'eod' if append_eod else 'plain'}_text_document.{suffix}").read_bytes()
        assert (tmp_path / f"out_text_document.{suffix}").read_bytes() == expected


def test_every_document_can_be_found_in_its_file(tmp_path: Path) -> None:
    lines = (GOLDEN / "input.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "one.jsonl").write_bytes(b"\xef\xbb\xbf" + b"".join(lines[:50]) + b" \n" + b"".join(lines[50:70]))
    (tmp_path / "two.jsonl").write_bytes(b"".join(lines[70:]).rstrip(b"\n"))
    inputs = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    report = run(inputs, tmp_path / "out", part_bytes=3_000, workers=3)

    expected = (GOLDEN / "plain_text_document.bin").read_bytes()
    assert (tmp_path / "out_text_document.bin").read_bytes() == expected
    assert (report.counts.blanks, report.counts.documents, report.counts.lines) == (1, 139, 140)
    rows = pq.read_table(tmp_path / "out_text_document.docs.parquet").to_pylist()
    assert len(rows) == 139
    contents = {str(path): path.read_bytes() for path in inputs}
    for row, line in zip(rows, lines, strict=True):
        record = json.loads(line)
        content = contents[row["file"]]
        assert content[row["byte_offset"] :].startswith(line.rstrip(b"\n"))
        assert content[: row["byte_offset"]].count(b"\n") + 1 == row["line"]
        assert row["id"] == record["id"]
        assert row["source"] == record["meta"]["source"]
        assert json.loads(row["meta"]) == record["meta"]


def test_the_metadata_say_what_was_done(tmp_path: Path, write_lines: WriteLines) -> None:
    path = write_lines({"text": "one"}, {"text": ""}, {"text": "two", "source": "web"})
    report = run(path, tmp_path / "out", append_eod=True, seq_length=128)
    prefix = tmp_path / "out_text_document"
    metadata = read_metadata(prefix)
    assert metadata is not None
    assert metadata.tokenizer.kind == "HuggingFaceTokenizer"
    assert metadata.tokenizer.files == {
        "tokenizer.json": hashlib.sha256((GOLDEN / "tokenizer" / "tokenizer.json").read_bytes()).hexdigest()
    }
    assert (metadata.vocab_size, metadata.eod_id, metadata.dtype, metadata.seq_length) == (4000, 0, "uint16", 128)
    assert (metadata.documents, metadata.sequences) == (3, 2)
    assert metadata.options == {"append_eod": True, "json_key": "text", "add_special_tokens": False}
    (source,) = metadata.sources
    assert (source.path, source.size) == (str(path), path.stat().st_size)
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    for suffix, sha256 in (("bin", metadata.bin_sha256), ("idx", metadata.idx_sha256)):
        assert hashlib.sha256(Path(f"{prefix}.{suffix}").read_bytes()).hexdigest() == sha256
    md5 = {name: sum_ for sum_, name in (line.split() for line in Path(f"{prefix}.md5").read_text().splitlines())}
    assert md5 == {
        f"out_text_document.{suffix}": hashlib.md5(Path(f"{prefix}.{suffix}").read_bytes()).hexdigest()
        for suffix in ("bin", "idx")
    }
    assert report.to_json()["sources"] == {
        "input": {"documents": 2, "tokens": len(encoded("one")[0]) + 1},
        "web": {"documents": 1, "tokens": len(encoded("two")[0]) + 1},
    }
    assert json.loads(json.dumps(report.to_json()))["documents"] == 3


def test_several_keys_make_a_pair_each_in_one_run(tmp_path: Path, write_lines: WriteLines) -> None:
    path = write_lines({"title": "t", "text": "a b"}, {"title": "", "text": "c"}, {"title": "u", "text": ""})
    report = run(path, tmp_path / "out", json_keys=("text", "title"), append_eod=True)
    assert documents(tmp_path / "out") == encoded("a b", "c", "", eod=True)
    assert documents(tmp_path / "out", "title") == encoded("t", "", "u", eod=True)
    assert list(report.pairs) == [f"{tmp_path}/out_text_document", f"{tmp_path}/out_title_document"]


def test_a_list_of_texts_is_a_document_of_as_many_sequences(tmp_path: Path, write_lines: WriteLines) -> None:
    path = write_lines({"text": ["one", "", "two"]}, {"text": []}, {"text": ["", ""]}, {"text": "three"})
    run(path, tmp_path / "out", append_eod=True)
    index = IndexedDataset(tmp_path / "out_text_document").index
    one, two, three = (len(ids) for ids in encoded("one", "two", "three"))
    assert index.sequence_lengths.tolist() == [one, two + 1, three + 1]
    assert index.document_indices.tolist() == [0, 2, 2, 2, 3]


BAD_LINES = {
    "bad JSON": (b'{"text": "b"\n', "it is not valid JSON"),
    "missing key": (b'{"txt": "b"}\n', "it has no key 'text' (its keys: 'txt')"),
    "no string": (b'{"text": 3}\n', "'text' is a number, not a string"),
    "NUL byte": (b'{"text": "\0"}\n', "it has a NUL byte at column 11"),
    "invalid UTF-8": (b'{"text": "\xff"}\n', "it is not valid UTF-8: byte 0xff at column 11"),
    "lone surrogate": (b'{"text": "\\ud800"}\n', "'text' has a lone surrogate \\ud800 at character 1"),
    "cut off": (b'{"text": "no end', "it is not valid JSON: Unterminated string"),
}


@pytest.mark.parametrize("what", BAD_LINES)
def test_a_line_that_is_no_record_ends_the_run_with_its_place_and_leaves_nothing(
    what: str, tmp_path: Path, write_lines: WriteLines
) -> None:
    line, reason = BAD_LINES[what]
    path = write_lines(*[{"text": "a"}] * 30, b"\n", line)
    before = names(tmp_path)
    for workers, part_bytes in ((1, None), (3, 40)):
        with pytest.raises(DataError) as caught:
            run(path, tmp_path / "out", workers=workers, part_bytes=part_bytes)
        offset = path.read_bytes().index(line)
        assert str(caught.value).startswith(f"{path}, line 32 (byte {offset}): {reason}")
        assert "--on-error skip" in str(caught.value)
        assert "\n" not in str(caught.value)
        # Finished parts are kept to go on from.
        assert names(tmp_path) - {"out.parts"} == before
        shutil.rmtree(tmp_path / "out.parts", ignore_errors=True)


@pytest.mark.parametrize("workers", [1, 3])
def test_lines_that_are_no_records_are_skipped_and_listed(
    workers: int, tmp_path: Path, write_lines: WriteLines
) -> None:
    bad = [line for line, _ in BAD_LINES.values()]
    one = write_lines({"text": "a"}, bad[0], {"text": "b"}, *bad[1:-1], {"text": "c"}, bad[-1], name="one.jsonl")
    two = write_lines(bad[1], {"text": "d"}, name="two.jsonl")
    report = run([one, two], tmp_path / "out", rejects_allowed=None, workers=workers, part_bytes=15)
    assert documents(tmp_path / "out") == encoded("a", "b", "c", "d")
    assert report.counts.rejects == len(bad) + 1
    assert report.rejects_path == f"{tmp_path}/out.rejected.jsonl"
    listed = [json.loads(line) for line in (tmp_path / "out.rejected.jsonl").read_bytes().splitlines()]
    assert [entry["line"] for entry in listed] == [2, 4, 5, 6, 7, 8, 10, 1]
    assert [Path(entry["file"]) for entry in listed] == [one] * 7 + [two]
    for entry, line in zip(listed, [*bad, bad[1]], strict=True):
        assert Path(entry["file"]).read_bytes()[entry["byte_offset"] :].startswith(line)
        assert entry["raw"] == line.decode(errors="replace").rstrip("\n")
    for entry, (_, reason) in zip(listed, BAD_LINES.values(), strict=False):
        assert entry["reason"].startswith(reason)
    # A clean run leaves no list of an earlier one behind.
    run(write_lines({"text": "a"}), tmp_path / "out", rejects_allowed=None)
    assert "out.rejected.jsonl" not in names(tmp_path)


@pytest.mark.parametrize(("allowed", "ends_at"), [(1, 4), (2, 6), (3, None)])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_run_ends_at_one_bad_line_more_than_allowed(
    allowed: int, ends_at: int | None, workers: int, tmp_path: Path, write_lines: WriteLines
) -> None:
    path = write_lines({"text": "a"}, b"1\n", {"text": "b"}, b"2\n", {"text": "c"}, b"3\n")
    options = {"rejects_allowed": allowed, "workers": workers, "part_bytes": 13}
    if ends_at is None:
        assert run(path, tmp_path / "out", **options).counts.rejects == 3
        return
    with pytest.raises(DataError, match=rf"line {ends_at} \(byte .*--on-error allows {allowed} bad lines"):
        run(path, tmp_path / "out", **options)
    listed = [json.loads(line) for line in (tmp_path / "out.rejected.jsonl").read_bytes().splitlines()]
    assert [entry["line"] for entry in listed] == [2, 4, 6][: allowed + 1]
    assert names(tmp_path) - {"out.parts"} == {"input.jsonl", "out.rejected.jsonl"}


def test_the_last_line_of_a_file_is_not_glued_to_the_next_file(tmp_path: Path, write_lines: WriteLines) -> None:
    one = write_lines(b'{"text": "a"}', name="one.jsonl")
    empty = write_lines(name="empty.jsonl")
    two = write_lines(b'{"text": "b"}\r\n{"text": "c"}\r\n\r\n', name="two.jsonl")
    report = run([one, empty, two], tmp_path / "out")
    assert documents(tmp_path / "out") == encoded("a", "b", "c")
    assert (report.input_files, report.counts.blanks) == (3, 1)


@pytest.mark.parametrize("lines", [[], [b"\n \n"], [{"text": ""}], [b"\xef\xbb\xbf"]])
def test_an_input_without_a_token_is_an_error(lines: list[Any], tmp_path: Path, write_lines: WriteLines) -> None:
    path = write_lines(*lines)
    with pytest.raises(DataError, match=r"no tokens in \d documents; nothing was written"):
        run(path, tmp_path / "out")
    assert names(tmp_path) == {"input.jsonl"}


def test_without_an_end_of_document_token_appending_it_is_refused(tmp_path: Path, write_lines: WriteLines) -> None:
    state = json.loads((GOLDEN / "tokenizer" / "tokenizer.json").read_text())
    state["added_tokens"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    path = write_lines({"text": "a"})
    tokenizer = TokenizerSpec(path=tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="name no end-of-document token; pass --eod-token TOKEN or --eod-id ID"):
        run(path, tmp_path / "out", tokenizer=tokenizer, append_eod=True)
    run(path, tmp_path / "out", tokenizer=tokenizer)
    run(path, tmp_path / "out", tokenizer=TokenizerSpec(path=tmp_path / "tokenizer.json", eod_id=7), append_eod=True)
    assert documents(tmp_path / "out") == [[*encoded("a")[0], 7]]


def test_a_vocabulary_of_65500_or_more_is_stored_as_int32(tmp_path: Path, write_lines: WriteLines) -> None:
    state = json.loads((GOLDEN / "tokenizer" / "tokenizer.json").read_text())
    vocab = state["model"]["vocab"]
    vocab |= {f"<|{number}|>": number for number in range(len(vocab), 65_500)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    report = run(
        write_lines({"text": "a"}), tmp_path / "out", tokenizer=TokenizerSpec(path=tmp_path / "tokenizer.json")
    )
    assert report.dtype == "int32"
    assert documents(tmp_path / "out") == encoded("a")


def test_ids_that_the_type_would_change_are_refused(tmp_path: Path, write_lines: WriteLines) -> None:
    state = json.loads((GOLDEN / "tokenizer" / "tokenizer.json").read_text())
    state["model"]["vocab"]["<|far|>"] = 70_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(DataError, match=r"4,001 ids up to 70,000; .* uint16, which ends at 65,535"):
        run(write_lines({"text": "a"}), tmp_path / "out", tokenizer=TokenizerSpec(path=tmp_path / "tokenizer.json"))


def test_a_run_that_fails_leaves_an_older_pair_as_it_was(tmp_path: Path, write_lines: WriteLines) -> None:
    run(write_lines({"text": "old"}), tmp_path / "out")
    before = {path: path.read_bytes() for path in tmp_path.glob("out*")}
    with pytest.raises(DataError):
        run(write_lines({"text": "new"}, b"{\n"), tmp_path / "out")
    assert {path: path.read_bytes() for path in tmp_path.glob("out*")} == before


def test_a_worker_that_is_killed_ends_the_run_and_leaves_nothing(tmp_path: Path) -> None:
    killed = []

    def kill_a_worker(total: int, advance: object) -> None:
        for process in multiprocessing.active_children():
            if not killed:
                killed.append(process)
                process.kill()

    spec = PreprocessSpec(
        inputs=[GOLDEN / "input.jsonl"],
        output_prefix=str(tmp_path / "out"),
        tokenizer=TOKENIZER,
        workers=2,
        in_processes=True,
        part_bytes=2_000,
    )
    with pytest.raises(ChildProcessError, match=r"killed by SIGKILL on .*input\.jsonl, bytes .*memory"):
        preprocess(spec, kill_a_worker)
    assert names(tmp_path) <= {"out.parts"}


def test_two_runs_cannot_write_the_same_pair(tmp_path: Path, write_lines: WriteLines) -> None:
    path = write_lines({"text": "a"})
    with (
        IndexedDatasetWriter(tmp_path / "out_text_document", np.uint16) as writer,
        pytest.raises(ConfigError, match="another process is writing"),
    ):
        writer.add_document([1])
        run(path, tmp_path / "out")
    assert documents(tmp_path / "out") == [[1]]


def test_what_a_killed_run_left_is_cleared_away_in_the_end_but_nothing_else(
    tmp_path: Path, write_lines: WriteLines
) -> None:
    path = write_lines({"text": "a"})
    parts = tmp_path / "out.parts"
    parts.mkdir()
    (parts / "00000007.0.index").write_bytes(b"left")
    run(path, tmp_path / "out")
    assert not parts.exists()
    parts.mkdir()
    (parts / "thesis.txt").write_bytes(b"mine")
    with pytest.raises(ConfigError, match=r"has thesis\.txt in it"):
        run(path, tmp_path / "out")
    assert names(parts) == {"thesis.txt"}


def test_progress_adds_up(tmp_path: Path) -> None:
    totals = np.zeros(3, np.int64)

    def add(total: int, advance: Any) -> None:
        assert total == (GOLDEN / "input.jsonl").stat().st_size
        totals[:] += (advance.bytes, advance.documents, advance.tokens)

    spec = PreprocessSpec(
        inputs=[GOLDEN / "input.jsonl"],
        output_prefix=str(tmp_path / "out"),
        tokenizer=TOKENIZER,
        workers=2,
        part_bytes=50_000,
    )
    report = preprocess(spec, add)
    assert totals.tolist() == [report.input_bytes, report.counts.documents, report.counts.tokens]


def test_folders_of_the_output_are_made(tmp_path: Path, write_lines: WriteLines) -> None:
    run(write_lines({"text": "a"}), tmp_path / "deep" / "er" / "out")
    assert documents(tmp_path / "deep" / "er" / "out") == encoded("a")


def test_an_input_that_grows_during_the_run_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl"
    shutil.copy(GOLDEN / "input.jsonl", path)

    def grow(total: int, advance: object) -> None:
        with path.open("ab") as file:
            file.write(b"\n")

    spec = PreprocessSpec(inputs=[path], output_prefix=str(tmp_path / "out"), tokenizer=TOKENIZER, workers=1)
    with pytest.raises(DataError, match="was changed while it was read"):
        preprocess(spec, grow)
    assert names(tmp_path) == {"input.jsonl"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"inputs": []}, "no input given"),
        ({"output_prefix": ""}, "ends in no name"),
        ({"json_keys": ()}, "give at least one"),
        ({"json_keys": ("text", "text")}, "each once"),
        ({"json_keys": ("a/b",)}, "'a/b' cannot be part of a file name"),
        ({"workers": 0}, "workers is 0; give 1 or more"),
        ({"part_bytes": -1}, "part_bytes is -1"),
        ({"seq_length": 0}, "seq_length is 0"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_done(options: dict[str, Any], reason: str) -> None:
    values = {"inputs": ["a.jsonl"], "output_prefix": "out", "tokenizer": TOKENIZER} | options
    with pytest.raises(ConfigError, match=reason):
        PreprocessSpec(**values)
