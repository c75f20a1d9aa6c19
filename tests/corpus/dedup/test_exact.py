import itertools
import multiprocessing
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.duplicates import (
    WHOLE,
    Duplicates,
    read_duplicates,
    without_duplicates,
    write_duplicates,
)
from mindformers_megatron.corpus.dedup.exact import (
    HASH_ROW,
    ExactOptions,
    document_rows,
    duplicates_footprint,
    find_duplicates,
    normalise,
    passage_rows,
    prefix_rows,
    shard_rows,
)
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.errors import ConfigError, DataError

LINE = "a line that is long enough to count"
TEXT = LINE + "\nand another one, also long enough"

small_texts = st.lists(st.text(alphabet="ab c\n", max_size=6), max_size=25)


def found(shards: list[np.ndarray], documents: int, **options: object) -> list[tuple[int, int, int]]:
    bound = options.pop("bound", Bound())
    expected = options.pop("expected_rows", sum(map(len, shards)))
    chunks = find_duplicates(shards, expected_rows=expected, documents=documents, bound=bound, **options)
    return [row for chunk in chunks for row in zip(*map(np.ndarray.tolist, columns(chunk)), strict=True)]


def columns(chunk: Duplicates) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return chunk.documents, chunk.parts, chunk.kept


def brute(rows: list[tuple[object, int, int, int]], copies: int = 2) -> list[tuple[int, int, int]]:
    """Of (what is compared, priority, document, part)."""
    groups = defaultdict(list)
    for value, *rank in rows:
        groups[value].append(tuple(rank))
    dropped = []
    for group in groups.values():
        best = min(group)
        if len(group) >= copies:
            dropped += [(document, part, best[1]) for _, document, part in group if (_, document, part) != best]
    return sorted(dropped)


@given(st.lists(st.tuples(small_texts, st.integers(0, 2)), max_size=4), st.randoms(use_true_random=False))
def test_of_equal_documents_the_first_of_the_best_source_is_kept(shards, random) -> None:
    first, rows, expected = 0, [], []
    for texts, priority in shards:
        rows.append(document_rows(texts, first_document=first, priority=priority))
        expected += [(" ".join(t.split()), priority, first + place, WHOLE) for place, t in enumerate(texts)]
        first += len(texts)
    random.shuffle(rows)
    assert found(rows, first) == brute(expected)


@given(small_texts, st.integers(1, 4))
def test_prefixes_are_compared_and_shorter_texts_as_a_whole(texts: list[str], characters: int) -> None:
    rows = prefix_rows(texts, characters, first_document=0, form="none")
    assert found([rows], len(texts)) == brute([(t[:characters], 0, n, WHOLE) for n, t in enumerate(texts)])


@given(small_texts, st.integers(1, 3), st.integers(2, 4))
def test_lines_are_dropped_where_a_better_copy_stands(texts: list[str], least: int, copies: int) -> None:
    rows = passage_rows(texts, "line", first_document=5, min_characters=least)
    expected = [
        (" ".join(line.split()), 0, 5 + number, part)
        for number, text in enumerate(texts)
        for part, line in enumerate(text.split("\n"))
        if len(line.strip()) >= least
    ]
    assert found([rows], len(texts) + 5, copies=copies) == brute(expected, copies)


halves = st.integers(0, 2).map(lambda value: value * (2**64 - 1) // 2)
hash_rows = st.lists(
    st.tuples(halves, halves, st.integers(0, 30), st.integers(0, 3)), max_size=40, unique_by=lambda row: row[2:]
)


@given(hash_rows, st.integers(1, 10))
def test_both_halves_of_the_hash_count(values, cut: int) -> None:
    rows = np.array(values, dtype=HASH_ROW)
    shards = [rows[first : first + cut] for first in range(0, rows.size, cut)]
    assert found(shards, 31) == brute([((high, low), 0, rank, part) for high, low, rank, part in values])


@pytest.mark.parametrize("expected_rows", [1, 60_000])
def test_the_result_is_the_same_by_way_of_files(expected_rows: int, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    # Half of all are copies of one text: more rows than fit in memory at once.
    texts = [f"text {number}" if number % 2 else "the same" for number in random.integers(0, 30_000, 60_000)]
    rows = document_rows(texts, first_document=0)
    bound = Bound(memory_bytes=1 << 16, folder=tmp_path)
    assert duplicates_footprint(rows.size, bound).ranges > 8
    shards = np.array_split(rows, 11)[::-1]
    by_files = found(shards, rows.size, bound=bound, expected_rows=expected_rows)
    assert by_files == found([rows], rows.size)
    assert len(by_files) == len(texts) - len(set(texts))
    assert not any(tmp_path.iterdir())


def test_normal_forms_fold_as_much_as_they_say() -> None:
    text = "  Ｃafe\u0301 —\u3000the\n same! "
    assert normalise(text, "none") == text
    assert normalise(text, "spaces") == "Ｃaf\u00e9 — the same!"
    assert normalise(text, "words") == "caf\u00e9 the same"
    assert normalise("训练，模型。", "words") == "训练 模型"


@pytest.mark.parametrize("form", ["none", "spaces", "words"])
def test_lone_surrogates_are_hashed_like_anything_else(form) -> None:
    assert document_rows(["a \ud800", "a \udfff"], first_document=0, form=form).size == 2


def test_impossible_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="priority is -1"):
        document_rows(["a"], first_document=0, priority=-1)
    with pytest.raises(ConfigError, match="0 characters"):
        prefix_rows(["a"], 0, first_document=0)
    with pytest.raises(ConfigError, match="1 copies"):
        list(find_duplicates([], expected_rows=0, documents=0, bound=Bound(), copies=1))


@pytest.mark.parametrize(
    ("unit", "left"),
    [
        ("document", [TEXT, "other\n" + LINE, None, "x" * 40 + "\nend", "x" * 40 + "\n\nEND"]),
        ("prefix", [TEXT, "other\n" + LINE, None, "x" * 40 + "\nend", None]),
        ("line", [TEXT, "other", None, "x" * 40 + "\nend", "\nEND"]),
        ("paragraph", [TEXT, "other\n" + LINE, None, "x" * 40 + "\nend", "x" * 40 + "\n\nEND"]),
    ],
)
def test_texts_go_on_without_what_another_one_keeps(unit, left) -> None:
    texts = [TEXT, "other\n" + LINE, TEXT, "x" * 40 + "\nend", "x" * 40 + "\n\nEND"]
    options = ExactOptions(unit=unit, prefix_characters=40)
    shards = [shard_rows(texts[:2], options, first_document=7), shard_rows(texts[2:], options, first_document=9)]
    (found,) = find_duplicates(shards, expected_rows=9, documents=12, bound=Bound(), copies=options.copies)
    passages = "paragraph" if unit == "paragraph" else "line"
    assert without_duplicates(texts, found, first_document=7, unit=passages) == left
    assert without_duplicates(texts[2:4], found, first_document=9, unit=passages) == left[2:4]


@pytest.mark.parametrize(
    "wrong",
    [{"unit": "word"}, {"form": "stems"}, {"prefix_characters": 0}, {"min_characters": 0}, {"copies": 1}],
)
def test_options_that_mean_nothing_are_refused(wrong) -> None:
    with pytest.raises(ConfigError, match="exact duplicates"):
        ExactOptions(**wrong)


def test_what_was_dropped_can_be_looked_up(tmp_path: Path) -> None:
    table = tmp_path / "duplicates.parquet"
    texts = ["a long line of text\nshort", "b", "a long line of text", "b"]
    chunks = itertools.chain(
        find_duplicates(
            [passage_rows(texts, "line", first_document=0, min_characters=10)],
            expected_rows=2,
            documents=4,
            bound=Bound(),
        ),
        find_duplicates([document_rows(texts[1:], first_document=1)], expected_rows=4, documents=4, bound=Bound()),
    )
    assert write_duplicates(table, chunks) == 2
    everything = read_duplicates(table)
    assert [*zip(*map(np.ndarray.tolist, columns(everything)), strict=True)] == [(2, 0, 0), (3, WHOLE, 1)]
    assert read_duplicates(table, 3).kept.tolist() == [1]
    assert read_duplicates(table, 0, 3).documents.tolist() == [2]
    assert everything.similarity.tolist() == [1, 1]


def test_no_duplicates_are_a_table_too(tmp_path: Path) -> None:
    assert write_duplicates(tmp_path / "none.parquet", []) == 0
    assert len(read_duplicates(tmp_path / "none.parquet")) == 0


def test_what_is_no_table_of_duplicates_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(DataError, match="absent"):
        read_duplicates(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="no table"):
        read_duplicates(tmp_path / "text.parquet")
    pq.write_table(pa.table({"document": [1]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match="columns"):
        read_duplicates(tmp_path / "other.parquet")


SHARDS, SHARD_ROWS = 150, 10_000


def _measure(bound: Bound) -> tuple[int, int]:
    """Texts dropped, and the most memory that NumPy and Python held; a third of all rows have the same hash."""

    def shards() -> Iterator[np.ndarray]:
        for shard in range(SHARDS):
            rows = np.empty(SHARD_ROWS, dtype=HASH_ROW)
            rows["high"] = np.random.default_rng(shard).integers(0, 2**64, SHARD_ROWS, dtype=np.uint64)
            rows["high"][::3] = 7
            rows["low"], rows["part"] = rows["high"], WHOLE
            rows["rank"] = np.arange(shard * SHARD_ROWS, (shard + 1) * SHARD_ROWS)
            yield rows

    tracemalloc.start()
    total = SHARDS * SHARD_ROWS
    chunks = find_duplicates(shards(), expected_rows=total, documents=total, bound=bound)
    dropped = sum(len(chunk) for chunk in chunks)
    return dropped, tracemalloc.get_traced_memory()[1]


def test_memory_stays_within_the_bound(tmp_path: Path) -> None:
    bound = Bound(memory_bytes=1 << 22, folder=tmp_path)
    # In a process of its own, where little else is loaded; Python's own tables may still grow by some megabytes.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        dropped, peak = pool.submit(_measure, bound).result()
    assert dropped == SHARDS * -(-SHARD_ROWS // 3) - 1
    assert SHARDS * SHARD_ROWS * HASH_ROW.itemsize > 10 * bound.memory_bytes
    assert peak < 2 * bound.memory_bytes
