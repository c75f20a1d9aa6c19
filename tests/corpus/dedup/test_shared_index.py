import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from corpus.dedup.planted import english, plant

from mindformers_megatron.corpus.dedup.minhash import sign, similarity
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.shared_index import SharedIndex, superseded
from mindformers_megatron.errors import ConfigError, DataError

OPTIONS = NearOptions(ngram=3)

redis = pytest.importorskip("redis")
pytestmark = pytest.mark.slow


def signed(texts: list[str]) -> np.ndarray:
    return sign(texts, ngram=OPTIONS.ngram, permutations=OPTIONS.permutations, seed=OPTIONS.seed)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return request.node.name


def test_writers_at_once_drop_what_one_alone_would_drop(server, name: str) -> None:
    texts = ["", *plant(4, 600, 400, english, 80, " ", ngram=3).texts]
    signatures = signed(texts)
    ids = [f"文档-{number:04d}" for number in range(len(texts))]
    writers = 4

    def add(writer: int) -> None:
        mine = slice(writer, None, writers)
        SharedIndex(name, OPTIONS, server).add(ids[mine], signatures[mine])

    def find(writer: int) -> list[bool]:
        mine = slice(writer, None, writers)
        return superseded(ids[mine], SharedIndex(name, OPTIONS, server).find(ids[mine], signatures[mine]))

    with ThreadPoolExecutor(writers) as pool:
        [*pool.map(add, range(writers))]
        dropped = np.empty(len(texts), dtype=bool)
        for writer, mine in enumerate(pool.map(find, range(writers))):
            dropped[writer::writers] = mine
    used = OPTIONS.chosen_bands()
    places = signatures[:, : used.count * used.rows]
    bands = places.reshape(len(texts), used.count, used.rows)
    expected = [
        any(
            (bands[number] == bands[other]).all(axis=1).any()
            and similarity(places[number : number + 1], places[other : other + 1])[0] >= np.float32(OPTIONS.threshold)
            for other in range(1, number)
        )
        for number in range(len(texts))
    ]
    assert dropped.tolist() == [number > 0 and drop for number, drop in enumerate(expected)]
    assert sum(expected) > 50


def test_adding_again_changes_nothing(server, name: str) -> None:
    index = SharedIndex(name, OPTIONS, server)
    signatures = signed(["a b c d e f", "a b c d e f", "x y z w"])
    for _ in range(2):
        index.add(["one", "two", "three"], signatures)
        assert index.find(["one", "two", "three"], signatures) == [[("two", 1.0)], [("one", 1.0)], []]
    index.clear()
    assert index.find(["one"], signatures[:1]) == [[]]
    assert not [*redis.Redis(port=server["port"]).scan_iter(match=f"*{name}*")]


def test_other_options_are_refused(server, name: str) -> None:
    SharedIndex(name, OPTIONS, server)
    with pytest.raises(ConfigError, match="ngram 5"):
        SharedIndex(name, NearOptions(), server)


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataError, match=f"Redis at localhost:{port}, index mine"):
        SharedIndex("mine", OPTIONS, {"port": port})
