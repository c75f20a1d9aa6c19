"""Pairs written as MindRecord are read by MindSpore."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pairs import MakeCorpus

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.reader import IndexedDataset

pytestmark = pytest.mark.train


def test_the_command_leaves_nothing_but_the_file(tmp_path: Path, make_corpus: MakeCorpus) -> None:
    prefix = make_corpus("corpus", [30, 20])
    folder = tmp_path / "here"
    folder.mkdir()
    mfm = str(Path(sys.executable).with_name("mfm"))
    done = subprocess.run(
        [mfm, "convert", prefix, "--to", "mindrecord", "-o", "x"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["x.mindrecord", "x.mindrecord.db"]


def rows(path: Path, column: str = "input_ids") -> list[list[int]]:
    from mindspore.dataset import MindDataset

    dataset = MindDataset(str(path), columns_list=[column], shuffle=False)
    return [row[column].tolist() for row in dataset.create_dict_iterator(num_epochs=1, output_numpy=True)]


def test_each_document_is_a_row(tmp_path: Path, make_corpus: MakeCorpus) -> None:
    from mindformers_megatron.loader.mindrecord import write_mindrecord

    documents = [[1, 2, 3], [65_535], [4, 5]]
    prefix = make_corpus("corpus", [documents[0], [], *documents[1:]])
    for _ in range(2):  # over one that is there already
        assert write_mindrecord(prefix, tmp_path / "x.mindrecord", column="tokens") == 3
    assert rows(tmp_path / "x.mindrecord", "tokens") == documents


def test_windows_overlap_by_the_token_that_is_a_label_and_then_an_input(
    tmp_path: Path, make_corpus: MakeCorpus
) -> None:
    from mindformers_megatron.loader.mindrecord import write_mindrecord

    prefix = make_corpus("corpus", [30, 50, 21])
    stream = IndexedDataset(prefix).tokens(0, 101)
    assert write_mindrecord(prefix, tmp_path / "x.mindrecord", seq_length=16) == 6
    np.testing.assert_array_equal(
        rows(tmp_path / "x.mindrecord"), [stream[start : start + 17] for start in range(0, 96, 16)]
    )


def test_nothing_is_left_of_what_cannot_be_written(tmp_path: Path, make_corpus: MakeCorpus) -> None:
    from mindformers_megatron.loader.mindrecord import write_mindrecord

    prefix = make_corpus("corpus", [10])
    with pytest.raises(ConfigError, match="give no row"):
        write_mindrecord(prefix, tmp_path / "x.mindrecord", seq_length=10)
    assert not list(tmp_path.glob("x.mindrecord*"))
