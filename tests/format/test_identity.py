import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.identity import content_identity
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter


def identity(prefix: Path | str) -> str:
    return content_identity(IndexedDataset(prefix))


def write_large(prefix: Path, changed: int | None = None) -> None:
    tokens = np.arange(1_000_000, dtype=np.uint16)
    if changed is not None:
        tokens[changed] ^= 1
    with IndexedDatasetWriter(prefix, np.uint16) as writer:
        writer.add_documents(tokens, np.full(10_000, 100))


def test_a_copy_has_the_identity_of_the_original(pair: str, tmp_path: Path) -> None:
    for suffix in (".bin", ".idx"):
        shutil.copyfile(pair + suffix, tmp_path / f"copy{suffix}")
    assert identity(tmp_path / "copy") == identity(pair)
    assert content_identity(IndexedDataset(pair, mmap=False)) == identity(pair)


def test_any_change_in_a_small_pair_gives_another_identity(
    pair: str, tmp_path: Path, write: Callable[..., str]
) -> None:
    base = [[[1, 2]], [[3]]]
    variants = [
        base,
        [[[1, 2]], [[4]]],
        [[[1, 2], [3]]],
        [[[1, 2]], [], [[3]]],
        [[[1, 2]], [[3], []]],
        [[[1], [2]], [[3]]],
    ]
    found = {identity(write(tmp_path / f"v{i}", documents)) for i, documents in enumerate(variants)}
    found.add(identity(write(tmp_path / "wide", base, np.int32)))
    assert len(found) == len(variants) + 1


@pytest.mark.parametrize("changed", [0, 2047, 999_999])
def test_a_change_at_either_end_of_a_large_pair_gives_another_identity(tmp_path: Path, changed: int) -> None:
    write_large(tmp_path / "a")
    write_large(tmp_path / "b", changed)
    assert identity(tmp_path / "a") != identity(tmp_path / "b")


def test_a_file_that_is_gone_is_a_data_error(pair: str) -> None:
    dataset = IndexedDataset(pair)
    Path(pair + ".bin").unlink()
    with pytest.raises(DataError, match="cannot be opened"):
        content_identity(dataset)
