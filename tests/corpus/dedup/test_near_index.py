import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from corpus.dedup.planted import english, plant

from mindformers_megatron.corpus.dedup.lsh import Bands, band_keys
from mindformers_megatron.corpus.dedup.minhash import is_empty, sign, similarity
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.near_index import Matches, NearIndex
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.errors import ConfigError, DataError

OPTIONS = NearOptions(ngram=3)


def signed(texts: list[str]) -> np.ndarray:
    return sign(texts, ngram=OPTIONS.ngram, permutations=OPTIONS.permutations, seed=OPTIONS.seed)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return ["", *plant(11, 900, 500, english, 80, " ", ngram=3).texts, "..."]


def rows_of(found: Matches) -> set[tuple[int, int, float]]:
    return set(zip(found.queries.tolist(), found.rows.tolist(), found.similarity.tolist(), strict=True))


def brute(asked: np.ndarray, held: np.ndarray, options: NearOptions) -> set[tuple[int, int, float]]:
    bands = options.chosen_bands()
    asked_keys, held_keys = band_keys(asked, bands), band_keys(held, bands)
    found = set()
    for query in np.flatnonzero(~is_empty(asked)).tolist():
        alike = similarity(held, asked[query])
        close = (held_keys == asked_keys[query]).any(axis=1) & (alike >= np.float32(options.threshold))
        found |= {(query, row, float(alike[row])) for row in np.flatnonzero(close).tolist()}
    return found


@pytest.mark.parametrize("memory", [1 << 16, 1 << 30])
def test_it_finds_what_comparing_with_all_its_documents_finds(texts, tmp_path: Path, memory: int) -> None:
    held, asked = signed(texts[:600]), signed(texts[600:])
    ids = [f"文档 {number}" for number in range(600)]
    index = NearIndex(tmp_path / "new" / "index", OPTIONS)
    assert len(index) == 0
    assert not rows_of(index.find(asked))
    bound = Bound(memory_bytes=memory, folder=tmp_path)
    index.add([(ids[:250], held[:250]), ([], held[:0]), (ids[250:400], held[250:400])], bound=bound)
    index.add([(ids[400:], held[400:])], bound=bound)
    for opened in (index, NearIndex(tmp_path / "new" / "index", OPTIONS)):
        assert len(opened) == 600
        found = opened.find(asked)
        assert rows_of(found) == brute(asked, held, OPTIONS)
        assert len(found.rows) > 20
        assert opened.ids(found.rows) == [ids[row] for row in found.rows]
        assert np.all(np.diff(found.queries) >= 0)
        assert np.all((np.diff(found.similarity) <= 0) | (np.diff(found.queries) > 0))


def test_nothing_can_be_added_and_asked_for(tmp_path: Path) -> None:
    index = NearIndex(tmp_path, OPTIONS)
    index.add([])
    index.add([(["empty"], signed([""]))])
    assert len(index) == 1
    assert not rows_of(index.find(signed([])))
    assert not rows_of(index.find(signed(["", "a b c d"])))
    assert index.ids(np.zeros(0, dtype=np.int64)) == []


def test_an_addition_that_fails_leaves_the_index_as_it_was(texts, tmp_path: Path) -> None:
    index = NearIndex(tmp_path, OPTIONS)
    index.add([(["a"], signed(texts[5:6]))])

    def parts():
        yield ["b"], signed(texts[6:7])
        raise RuntimeError("the disk of the texts broke")

    with pytest.raises(RuntimeError):
        index.add(parts())
    for opened in (index, NearIndex(tmp_path, OPTIONS)):
        assert len(opened) == 1
        assert opened.find(signed(texts[5:6])).rows.tolist() == [0]
    index.add([(["b"], signed(texts[6:7]))])
    assert index.ids(index.find(signed(texts[6:7])).rows) == ["b"]


def _hold(folder: Path, started, let_go) -> None:
    def parts():
        started.set()
        let_go.wait()
        return iter(())

    class Waiting:
        def __iter__(self):
            return parts()

    NearIndex(folder, OPTIONS).add(Waiting())


def test_two_cannot_add_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    started, let_go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, started, let_go))
    other.start()
    try:
        assert started.wait(60)
        with pytest.raises(ConfigError, match="another process"):
            NearIndex(tmp_path, OPTIONS).add([])
    finally:
        let_go.set()
        other.join()
    assert other.exitcode == 0


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (NearOptions(ngram=4), "ngram 3, asked for is 4"),
        (NearOptions(ngram=3, threshold=0.8), "threshold 0.7, asked for is 0.8"),
        (NearOptions(ngram=3, threshold=1, bands=OPTIONS.chosen_bands()), "threshold"),
        (NearOptions(ngram=3, permutations=64), "permutations"),
        (NearOptions(ngram=3, seed=2), "seed"),
        (NearOptions(ngram=3, bands=Bands(10, 12)), "bands"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, other: NearOptions, named: str) -> None:
    NearIndex(tmp_path, OPTIONS).add([(["a"], signed(["a b c"]))])
    with pytest.raises(ConfigError, match=named):
        NearIndex(tmp_path, other)


@pytest.mark.parametrize("suffix", ["keys", "rows", "signatures", "ids"])
def test_a_damaged_segment_is_refused(tmp_path: Path, suffix: str) -> None:
    NearIndex(tmp_path, OPTIONS).add([(["a", "b"], signed(["a b c d", "e f g h"]))])
    damaged = tmp_path / f"000001.{suffix}"
    damaged.write_bytes(damaged.read_bytes()[:-16])
    with pytest.raises(DataError, match="000001"):
        NearIndex(tmp_path, OPTIONS)
    damaged.unlink()
    with pytest.raises(DataError, match=f"000001.{suffix}"):
        NearIndex(tmp_path, OPTIONS)


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"version": 3, "options": {}, "segments": {}})])
def test_what_is_no_index_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(DataError, match=r"index\.json"):
        NearIndex(tmp_path, OPTIONS)
