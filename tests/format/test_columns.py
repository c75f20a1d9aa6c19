"""Arrow columns are those that pyarrow itself would make."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.format.columns import integer_column, integers_of, repeated_text, text_column


@given(st.lists(st.none() | st.text()))
def test_texts_become_the_column_that_pyarrow_makes_of_them(values: list[str | None]) -> None:
    column = text_column(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.string()))


@given(st.text(), st.integers(0, 20))
def test_a_text_is_repeated(value: str, count: int) -> None:
    column = repeated_text(value, count)
    column.validate(full=True)
    assert column.equals(pa.array([value] * count, pa.string()))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1))))
def test_integers_come_back_from_a_column_in_chunks(values: list[list[int]]) -> None:
    chunks = [integer_column(np.array(chunk, np.int64)) for chunk in values]
    column = pa.chunked_array([chunk.slice(len(chunk) // 2) for chunk in chunks], pa.int64())
    assert integers_of(column).tolist() == [value for chunk in values for value in chunk[len(chunk) // 2 :]]


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_column(["good", "\ud800"])


def test_making_columns_does_not_import_pandas() -> None:
    program = (
        "import sys, numpy, pyarrow\n"
        "from mindformers_megatron.format.columns import *\n"
        "text_column(['a', None]); integers_of(pyarrow.chunked_array([integer_column(numpy.arange(3))]))\n"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
