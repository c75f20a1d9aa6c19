"""What is said of a pair, and that it is said whatever the pair is like."""

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenized import Pair

from mindformers_megatron.errors import DataError
from mindformers_megatron.execution.processes import map_ordered
from mindformers_megatron.format.checksums import write_md5
from mindformers_megatron.format.metadata import Metadata, TokenizerInfo, write_metadata
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path, metadata_path
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.verify.findings import Verdict
from mindformers_megatron.format.verify.pair import bytes_looked_at, verify_pair
from mindformers_megatron.format.verify.tasks import TaskWorker
from mindformers_megatron.format.writer import IndexedDatasetWriter

VOCABULARY, EOD = 3_000, 0
TOKENIZER = TokenizerInfo(
    name="t", kind="HuggingFaceTokenizer", files={}, library="tokenizers", library_version="1", engine="hf",
    engine_version="1",
)  # fmt: skip


def write_pair(prefix: Path, dtype: object = np.uint16, *, documents: int = 60, **changes: object) -> str:
    """A pair of random documents that end with EOD, with metadata."""
    rng = np.random.default_rng(5)
    with IndexedDatasetWriter(prefix, dtype, md5=True) as writer:
        for _ in range(documents):
            ids = rng.integers(1, VOCABULARY, rng.integers(1, 90))
            writer.add_document(np.append(ids, EOD).astype(writer.dtype))
    pair = writer.finalize()
    values: dict[str, object] = {
        "tokenizer": TOKENIZER,
        "vocab_size": VOCABULARY,
        "eod_id": EOD,
        "dtype": writer.dtype.name,
        "documents": pair.num_documents,
        "sequences": pair.num_sequences,
        "tokens": pair.num_tokens,
        "bin_sha256": pair.bin_sha256,
        "idx_sha256": pair.idx_sha256,
        "options": {"append_eod": True},
        "created": "2026-01-01",
        "program_version": "1",
    }
    write_metadata(writer.prefix, Metadata(**{**values, **changes}))  # type: ignore[arg-type]
    write_md5(writer.prefix, pair)
    return writer.prefix


def messages(verdict: Verdict) -> str:
    assert all("\n" not in str(finding) for finding in verdict.findings)
    return " | ".join(map(str, verdict.findings))


@pytest.mark.parametrize("full", [False, True])
def test_a_sound_pair_is_sound(tmp_path: Path, original: Pair, full: bool) -> None:
    for prefix in (write_pair(tmp_path / "small"), original.prefix):
        verdict = verify_pair(prefix, full=full)
        assert (verdict.sound, verdict.located, verdict.findings) == (True, True, ())
        assert verdict.notes == ()


@pytest.mark.parametrize("documents", [[], [[]], [[], [[]]], [[[7]]], [[[1, 2], [], [3]], []]])
def test_pairs_with_next_to_nothing_in_them_are_sound(
    tmp_path: Path, write: Callable[..., str], documents: list[list[list[int]]]
) -> None:
    assert verify_pair(write(tmp_path / "tiny", documents), full=True).sound


def test_modes_are_looked_for_where_they_are_said_to_be(tmp_path: Path, write: Callable[..., str]) -> None:
    images = write(tmp_path / "images", [[[1, 2]], [[3], [4]]], multimodal=True)
    assert verify_pair(images, full=True, multimodal=True).sound
    assert "multimodal=True" in messages(verify_pair(images, full=True))


def test_what_cannot_be_looked_at_is_said(copy: Pair) -> None:
    notes = verify_pair(copy.without_metadata().prefix, full=True).notes
    assert [note.split(" ")[0] for note in notes] == ["ids", "nothing", "there"]
    assert verify_pair(copy.prefix, full=True, vocab_size=4_000, eod_id=0).notes == notes[2:]


def test_without_metadata_what_is_said_to_be_known_is_looked_for(copy: Pair) -> None:
    copy.without_metadata()
    verdict = verify_pair(copy.prefix, full=True, vocab_size=100)
    assert verdict.counts["id"] > 9_000
    assert len(verdict.findings) == 20
    assert verify_pair(copy.prefix, full=True, eod_id=3).counts["eod"] == 9_756


def test_processes_say_the_same(copy: Pair) -> None:
    copy.bin[40_960:45_056] = 0xFF
    copy.array("lengths")[7] += 1
    here = verify_pair(copy.prefix, full=True)
    looked_at: list[int] = []
    there = verify_pair(
        copy.prefix,
        full=True,
        run=lambda tasks: map_ordered(TaskWorker, tasks, workers=2, on_notice=looked_at.append),
    )
    assert there.to_json() == here.to_json()
    assert sum(looked_at) == pytest.approx(bytes_looked_at(copy.prefix), rel=0.1)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("dtype", "written", "name", "option"),
    [
        ("<u2", ">u2", "big-endian uint16", ">u2"),
        ("<i4", ">i4", "big-endian int32", ">i4"),
        ("<u2", "<i4", "int32", "int32"),
        ("<u2", ">i4", "big-endian int32", ">i4"),
        ("<i4", "<u2", "uint16", "uint16"),
        ("<i4", "<i8", "int64", "int64"),
        ("<i4", "<f4", "float32", "float32"),
        ("<u2", "<f8", "float64", "float64"),
    ],
)
def test_tokens_of_another_type_are_named(
    tmp_path: Path, full: bool, dtype: str, written: str, name: str, option: str
) -> None:
    prefix = write_pair(tmp_path / "pair", dtype)
    path = bin_path(prefix)
    path.write_bytes(np.fromfile(path, dtype).astype(written).tobytes())
    verdict = verify_pair(prefix, full=full)
    assert not verdict.located
    assert f"the index says {np.dtype(dtype).name}" in messages(verdict)
    assert f"as {name} it is sound" in messages(verdict)
    assert f"--bin-dtype '{option}'" in messages(verdict)
    metadata_path(prefix).unlink()
    # Of two bytes in the wrong order nothing tells but the vocabulary.
    if written != ">u2":
        assert f"as {name} it is sound" in messages(verify_pair(prefix, full=full))


@pytest.mark.parametrize(("dtype", "code"), [("<u2", 4), ("<u2", 3), ("<i4", 8), ("<i4", 7), ("<i4", 5)])
def test_an_index_that_names_another_type_is_found_out(tmp_path: Path, dtype: str, code: int) -> None:
    prefix = write_pair(tmp_path / "pair", dtype)
    content = bytearray(idx_path(prefix).read_bytes())
    content[17] = code
    idx_path(prefix).write_bytes(content)
    for full in (False, True):
        assert "dtype" in verify_pair(prefix, full=full).counts


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("change", "text"), [(b"xyz", "3 too many"), (-300, "300 too few: it was cut off")])
def test_a_bin_that_is_longer_or_shorter_is_found_out(tmp_path: Path, full: bool, change: object, text: str) -> None:
    path = bin_path(write_pair(tmp_path / "pair"))
    path.write_bytes(path.read_bytes() + change if isinstance(change, bytes) else path.read_bytes()[:change])
    verdict = verify_pair(tmp_path / "pair", full=full)
    assert not verdict.sound
    assert verdict.located == full
    assert not full or text in messages(verdict)


def test_half_a_pair_a_folder_and_nothing_are_findings(tmp_path: Path, pair: str) -> None:
    bin_path(pair).unlink()
    for path in (pair, str(tmp_path), str(tmp_path / "none")):
        verdict = verify_pair(path, full=True)
        assert verdict.counts == {"file": 1}
        assert verdict.documents is None


def test_metadata_that_is_damaged_or_of_another_pair_is_a_finding_and_the_pair_is_looked_at(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "pair")
    other = write_pair(tmp_path / "other", documents=7)
    for content, said in (
        (metadata_path(other).read_bytes(), "says 7 documents, but the index has 60"),
        (b"{", "is not JSON"),
    ):
        metadata_path(prefix).write_bytes(content)
        verdict = verify_pair(prefix, full=True)
        assert verdict.counts == {"metadata": 1}
        assert said in messages(verdict)
        assert verdict.located


@pytest.mark.parametrize("rows", [59, 61])
def test_provenance_of_another_pair_is_a_finding(tmp_path: Path, rows: int) -> None:
    prefix = write_pair(tmp_path / "pair")
    with DocsWriter(prefix) as docs:
        many = [0] * rows
        docs.add([None] * rows, source="s", file="f", lines=many, byte_offsets=many, metas=[None] * rows)
    verdict = verify_pair(prefix)
    assert verdict.counts == {"provenance": 1}
    assert f"{rows} rows for 60 documents" in messages(verdict)
    docs_path(prefix).write_bytes(b"PAR1")
    assert verify_pair(prefix).counts == {"provenance": 1}


def test_checksums_of_md5sum_serve_where_there_is_no_metadata(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "pair")
    metadata_path(prefix).unlink()
    assert verify_pair(prefix, full=True, vocab_size=VOCABULARY, eod_id=EOD).notes == ()
    content = bytearray(bin_path(prefix).read_bytes())
    content[0] ^= 1
    bin_path(prefix).write_bytes(content)
    verdict = verify_pair(prefix, full=True)
    assert "md5 is not that of pair.md5: it was changed, and nothing shows where" in messages(verdict)
    assert not verdict.located
    Path(f"{prefix}.md5").write_text("nonsense\n")
    assert "expected lines as md5sum writes them" in messages(verify_pair(prefix, full=True))


def test_ids_beyond_a_vocabulary_with_gaps_are_no_damage_of_a_bin_that_has_its_checksum(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path / "pair", vocab_size=VOCABULARY - 100)
    verdict = verify_pair(prefix, full=True)
    assert verdict.sound
    largest = int(np.fromfile(bin_path(prefix), np.uint16).max())
    assert f"a model needs a vocab_size of {largest + 1:,} or more" in verdict.notes[0]
    assert not verify_pair(prefix, full=True, vocab_size=VOCABULARY - 100).sound


def test_an_index_that_is_something_else_is_not_called_damaged_in_places(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "pair", np.uint8) as writer:
        writer.add_documents(np.ones(300_000, np.uint8), np.ones(300_000, np.int64))
    pair = Pair(writer.prefix, tmp_path)
    pair.array("lengths")[2:-2] = np.random.default_rng(0).integers(2, 99, 299_996)
    verdict = verify_pair(pair.prefix, full=True)
    assert not verdict.readable
    assert "contradict each other nearly everywhere" in messages(verdict)


def meaning(prefix: str) -> object:
    """All that readers can get out of a pair; None if they refuse it."""
    try:
        dataset = IndexedDataset(prefix)
        arrays = (dataset.index.document_indices, dataset.index.sequence_lengths, dataset.index.sequence_pointers)
        return dataset.dtype.str, *(array.tolist() for array in arrays), [tokens.tolist() for tokens in dataset]
    except DataError:
        return None


@pytest.mark.parametrize("with_metadata", [True, False])
@pytest.mark.parametrize("trials", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_no_damaged_pair_is_called_sound_and_none_does_harm(
    tmp_path: Path, pair: str, with_metadata: bool, trials: int
) -> None:
    prefix = write_pair(tmp_path / "fuzzed", documents=12) if with_metadata else pair
    paths = {"idx": idx_path(prefix), "bin": bin_path(prefix)}
    sound = {name: np.frombuffer(path.read_bytes(), np.uint8) for name, path in paths.items()}
    right = meaning(prefix)
    rng = np.random.default_rng(int(with_metadata))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for trial in range(trials):
        name = "bin" if trial % 7 == 0 else "idx"
        damaged = sound[name].copy()
        if trial % 5 == 0:
            damaged = damaged[: rng.integers(0, damaged.size)]
        elif trial % 11 == 0:
            damaged = np.append(damaged, rng.integers(0, 256, rng.integers(1, 40)).astype(np.uint8))
        else:
            region = 34 if trial % 2 and name == "idx" else damaged.size
            where = rng.integers(0, region, rng.integers(1, 5))
            damaged[where] = (
                rng.integers(0, 256, where.size) if trial % 3 else damaged[where] ^ (1 << rng.integers(0, 8))
            )
        paths[name].write_bytes(damaged.tobytes())
        changed = not np.array_equal(damaged, sound[name])
        quick, full = verify_pair(prefix), verify_pair(prefix, full=True)
        assert full.sound <= quick.sound
        if full.sound:
            found = meaning(prefix)
            assert found is not None
            # Without checksums, what is in order is taken as it is: another id, another division into documents.
            assert (found == right and not changed) if with_metadata else in_order(found)
        paths[name].write_bytes(sound[name].tobytes())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def in_order(found: tuple[str, list[int], list[int], list[int], list[list[int]]]) -> bool:
    dtype, documents, lengths, pointers, _ = found
    ends = np.cumsum([0, *lengths]) * np.dtype(dtype).itemsize
    ascends = documents == sorted(documents) and documents[0] == 0 and documents[-1] == len(lengths)
    return pointers == ends[:-1].tolist() and ascends
