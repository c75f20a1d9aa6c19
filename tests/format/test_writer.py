"""What a writer refuses, and what is left on disk when it does not finish."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter


def assert_no_pair(prefix: Path) -> None:
    with pytest.raises(DataError):
        read_index(prefix)


@pytest.mark.parametrize(
    ("ids", "offender"),
    [
        ([1, 70_000], "70000"),
        ([1, -1], "-1"),
        ([1, 2**63], str(2**63)),
        ([-1, 2**63], "-1"),
        ([1, 2**70], str(2**70)),
        ([1.0, 2.0], "1.0"),
        ([1, 2.5], "2.5"),
        ([True], "True"),
        (["1"], "'1'"),
        ([1, None], "None"),
        ([1, [2, 3]], "no flat list"),
        ([[1, 2]], r"shape \(1, 2\)"),
        (np.array([5, 65_536]), "65536"),
        (np.array([5, -1], np.int8), "-1"),
        (np.array([5, 2**64 - 1], np.uint64), str(2**64 - 1)),
        (np.array([1.0]), "1.0"),
        (np.array([True]), "True"),
    ],
)
def test_ids_that_the_dtype_cannot_hold_are_refused_with_the_document(
    tmp_path: Path, ids: object, offender: str
) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        writer.add_document([1, 2])
        with pytest.raises(DataError, match=f"document 1.*{offender}"):
            writer.add_document(ids)
        writer.add_document([3])
    assert [sequence.tolist() for sequence in IndexedDataset(tmp_path / "x")] == [[1, 2], [3]]


def test_an_id_in_a_batch_is_refused_with_its_own_document(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint8) as writer:
        writer.add_document([1])
        with pytest.raises(DataError, match=r"document 3, .*300"):
            writer.add_documents([1, 2, 300, 4], [2, 0, 1, 1])
        with pytest.raises(DataError, match=r"document 2, .*300"):
            writer.add_documents([1, 2, 300, 4], [2, 0, 1, 1], [2, 2])
    assert len(IndexedDataset(tmp_path / "x")) == 1


@pytest.mark.parametrize(
    "ids", [np.array([3, 4], ">i8"), np.array([3, 0, 4, 0])[::2], (3, 4), range(3, 5), [np.int8(3), 4]]
)
def test_ids_of_any_integer_type_and_layout_are_taken(tmp_path: Path, ids: object) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        writer.add_document(ids)
    assert IndexedDataset(tmp_path / "x")[0].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("lengths", "complaint"),
    [([2], "add up to 2"), ([4], "add up to 4"), ([-1, 4], "-1 tokens"), ([1.5, 1.5], "float64"), ([], "add up to 0")],
)
def test_lengths_that_do_not_add_up_are_refused(tmp_path: Path, lengths: list[int], complaint: str) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        for add in (writer.add_document, writer.add_documents):
            with pytest.raises(DataError, match=complaint):
                add([1, 2, 3], lengths)
        with pytest.raises(DataError, match="add up to 1, but there are 2 sequences"):
            writer.add_documents([1, 2, 3], [1, 2], [1])
    assert IndexedDataset(tmp_path / "x").num_documents == 0


def test_a_sequence_of_two_to_the_31_tokens_is_refused(tmp_path: Path) -> None:
    endless = np.broadcast_to(np.uint8(1), 2**31)
    with IndexedDatasetWriter(tmp_path / "x", np.uint8) as writer:
        for add in (lambda: writer.add_document(endless), lambda: writer.add_documents(endless, [2**31])):
            with pytest.raises(DataError, match="2147483648 tokens"):
                add()


def test_an_empty_document_is_a_repeated_document_index_as_in_megatron(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        writer.add_document([1])
        writer.add_document([])
        writer.add_documents([2, 3], [0, 2, 0])
    index = read_index(tmp_path / "x")
    assert index.document_indices.tolist() == [0, 1, 1, 1, 2, 2]
    assert index.sequence_lengths.tolist() == [1, 2]


def test_a_dtype_without_a_code_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    for dtype in (np.uint32, np.complex64, "no type"):
        with pytest.raises(ConfigError, match="uint16"):
            IndexedDatasetWriter(tmp_path / "x", dtype)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        IndexedDatasetWriter(tmp_path / "none" / "x", np.uint16)


def test_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.int32, md5=True) as writer:
        writer.add_documents(range(1000), [400, 600])
    written = writer.finalize()
    for suffix, sha256, md5 in (
        (".bin", written.bin_sha256, written.bin_md5),
        (".idx", written.idx_sha256, written.idx_md5),
    ):
        content = (tmp_path / f"x{suffix}").read_bytes()
        assert (sha256, md5) == (hashlib.sha256(content).hexdigest(), hashlib.md5(content).hexdigest())
    assert (written.num_documents, written.num_sequences, written.num_tokens) == (2, 2, 1000)


def test_hashes_that_nobody_asked_for_are_none(tmp_path: Path) -> None:
    written = IndexedDatasetWriter(tmp_path / "x", np.int32, sha256=False).finalize()
    assert (written.bin_sha256, written.idx_sha256, written.bin_md5, written.idx_md5) == (None, None, None, None)


def test_an_exception_in_the_block_leaves_the_folder_as_it_was(tmp_path: Path, pair: str) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt), IndexedDatasetWriter(pair, np.uint16) as writer:
        writer.add_document([1])
        raise KeyboardInterrupt
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(ValueError, match="closed"):
        writer.add_document([1])


def test_a_second_writer_of_the_same_pair_is_refused(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        with pytest.raises(ConfigError, match="another process is writing"):
            IndexedDatasetWriter(tmp_path / "x", np.uint16)
        writer.add_document([1])
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        writer.add_document([2])
    assert IndexedDataset(tmp_path / "x")[0].tolist() == [2]


def test_what_described_the_old_pair_goes_with_it(tmp_path: Path, pair: str) -> None:
    metadata, docs = Path(pair + ".metadata.json"), Path(pair + ".docs.parquet")
    metadata.write_text("of the old pair")
    docs.write_text("of the old pair")
    with IndexedDatasetWriter(pair, np.uint16):
        docs.write_text("of the new pair, longer")
    assert not metadata.exists()
    assert docs.read_text() == "of the new pair, longer"


def test_files_get_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        IndexedDatasetWriter(tmp_path / "x", np.uint16).finalize()
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o640, 0o640]


WRITE_UNTIL_KILLED = """
import sys
import numpy as np
from mindformers_megatron.format.writer import IndexedDatasetWriter
writer = IndexedDatasetWriter(sys.argv[1], np.uint16)
while True:
    writer.add_documents(np.arange(50000), [20000, 30000])
    print(flush=True)
"""


def test_a_writer_killed_while_writing_leaves_no_pair_and_the_next_one_succeeds(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path / "x")], stdout=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(50):
        child.stdout.readline()
    child.kill()
    child.wait()
    child.stdout.close()
    assert_no_pair(tmp_path / "x")
    assert not (tmp_path / "x.bin").exists()
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        writer.add_document([7])
    assert IndexedDataset(tmp_path / "x")[0].tolist() == [7]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.bin", "x.idx"]


def finalize_and_die(prefix: str, step: int) -> bool:
    """Writes a pair in a child that kills itself before the step-th file operation of ``finalize``."""
    child = os.fork()
    if child == 0:
        writer = IndexedDatasetWriter(prefix, np.uint16)
        writer.add_document([1, 2, 3, 4])
        operations = iter(range(1000))

        def die(event: str, arguments: object) -> None:
            if event in ("os.rename", "os.remove", "open") and next(operations) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die)
        writer.finalize()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("before", ["nothing", "a pair of the same size", "a pair of another size"])
def test_a_writer_killed_at_any_step_leaves_the_old_pair_none_or_the_new_one(
    tmp_path: Path, write: Callable[..., str], before: str
) -> None:
    old = {"nothing": None, "a pair of the same size": [5, 6, 7, 8], "a pair of another size": [5, 6]}[before]
    outcomes = []
    for step in range(100):
        prefix = str(tmp_path / f"step{step}" / "x")
        Path(prefix).parent.mkdir()
        if old is not None:
            write(prefix, [[old]])
        through = finalize_and_die(prefix, step)
        try:
            outcomes.append(IndexedDataset(prefix)[0].tolist())
        except DataError:
            outcomes.append(None)
        if through:
            break
    assert outcomes[-1] == [1, 2, 3, 4]
    assert len(outcomes) > 3
    allowed = [old, None, [1, 2, 3, 4]]
    assert all(outcome in allowed for outcome in outcomes)
