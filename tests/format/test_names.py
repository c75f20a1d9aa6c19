from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.dtypes import DTYPE_CODES, dtype_code, dtype_for_vocab
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("data/wiki", "data/wiki"),
        ("data/wiki.bin", "data/wiki"),
        ("data/wiki.idx", "data/wiki"),
        (Path("data/wiki.bin"), "data/wiki"),
        ("wiki.v1.2", "wiki.v1.2"),
        ("wiki.bin.idx", "wiki.bin"),
    ],
)
def test_a_prefix_is_what_is_left_without_the_suffix(path: str | Path, prefix: str) -> None:
    assert prefix_of(path) == prefix


def test_the_files_of_a_prefix_with_dots_keep_them() -> None:
    assert bin_path("wiki.v1.2") == Path("wiki.v1.2.bin")
    assert idx_path("wiki.v1.2") == Path("wiki.v1.2.idx")


@pytest.mark.parametrize("path", ["", "data/", "data/.bin", ".idx", "a\0b", b"wiki"])
def test_what_names_no_pair_is_a_config_error(path: object) -> None:
    with pytest.raises(ConfigError):
        prefix_of(path)


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [(1, np.uint16), (65_499, np.uint16), (65_500, np.int32), (65_536, np.int32), (None, np.int32)],
)
def test_the_dtype_is_the_one_megatron_picks(vocab_size: int | None, dtype: type) -> None:
    assert dtype_for_vocab(vocab_size) == dtype


def test_codes_and_dtypes_belong_together() -> None:
    assert {code: dtype_code(dtype) for code, dtype in DTYPE_CODES.items()} == {code: code for code in DTYPE_CODES}
    assert dtype_code("uint16") == 8
