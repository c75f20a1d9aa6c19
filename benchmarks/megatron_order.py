"""How long Megatron's order takes to build, beside the C++ and Python that MindFormers has from Megatron.

The corpora are lengths only, drawn log-normally. MindFormers' helper is compiled into a temporary folder; that takes
g++ and ``pip install pybind11``. Every time is the best of several, the two sides taking turns.
"""

import argparse
import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.format.index import Index
from mindformers_megatron.sampling.megatron_blend import MegatronBlend, blend_sizes
from mindformers_megatron.sampling.megatron_order import MegatronOrder

SEED = 1234


def compile_helpers(folder: Path) -> Any:
    import mindformers
    import pybind11

    source = Path(mindformers.__file__).parent / "dataset/blended_datasets/helpers.cpp"
    target = folder / f"helpers{sysconfig.get_config_var('EXT_SUFFIX')}"
    includes = [f"-I{include}" for include in (sysconfig.get_path("include"), pybind11.get_include())]
    # The flags of MindFormers' own Makefile.
    flags = ["-O3", "-shared", "-std=c++11", "-fPIC", "-w"]
    subprocess.run(["g++", *flags, *includes, str(source), "-o", str(target)], check=True)
    spec = importlib.util.spec_from_file_location("helpers", target)
    assert spec is not None
    assert spec.loader is not None
    helpers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(helpers)
    return helpers


def corpus_of(documents: int, median: int) -> Index:
    lengths = (np.random.default_rng(0).lognormal(np.log(median), 1, documents)).astype(np.int32) + 1
    ends = np.cumsum(lengths, dtype=np.int64)
    return Index(
        prefix="synthetic",
        dtype=np.dtype("<u2"),
        sequence_lengths=lengths,
        sequence_pointers=(ends - lengths) * 2,
        document_indices=np.arange(documents + 1, dtype=np.int64),
        sequence_modes=None,
        num_tokens=int(ends[-1]),
    )


def megatron_order(helpers: Any, index: Index, num_samples: int | None, seq_length: int) -> tuple[Any, Any, Any]:
    """What MindFormers' GPTDataset does on a cache miss, without its files."""
    from mindformers.dataset.blended_datasets import gpt_dataset

    documents = np.arange(index.num_sequences, dtype=np.int32)
    tokens = int(np.sum(index.sequence_lengths[documents]))
    epochs, separate, before_last = 1, False, 0
    if num_samples is not None:
        while epochs * tokens < num_samples * seq_length + 1:
            epochs += 1
    if epochs > 1:
        before_last = ((epochs - 1) * tokens - 1) // seq_length
        separate = num_samples - before_last < int(0.80 * ((tokens - 1) // seq_length))
    random = np.random.RandomState(SEED)
    document_index = gpt_dataset._build_document_index(documents, epochs, random, separate)
    lengths = index.sequence_lengths.copy()
    sample_index = helpers.build_sample_idx(lengths, document_index, seq_length, epochs, tokens, True, True)
    count = sample_index.shape[0] - 1
    shuffle_index = gpt_dataset._build_shuffle_index(before_last if separate else count, count, random)
    return document_index, sample_index, shuffle_index


def megatron_blend(helpers: Any, weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    order, position = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int64)
    helpers.build_blending_indices(order, position, weights, weights.size, size, False)
    return order, position


def seconds(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def compare(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> None:
    times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    mine, other = (min(column) for column in zip(*times, strict=True))
    print(f"{name:<58} {mine:>9.3f} {other:>9.3f} {mine / other:>7.2f}", flush=True)


def compare_orders(helpers: Any, documents: int, rounds: int) -> None:
    for median, seq_length, epochs in [(400, 4096, 1.0), (400, 4096, 3.5), (400, 4096, 3.9), (4000, 4096, 1.0)]:
        index = corpus_of(documents, median)
        samples = None if epochs == 1 else int(epochs * index.num_tokens / seq_length)

        def ours(folder: str | None = None, index: Index = index, samples: int | None = samples) -> MegatronOrder:
            return MegatronOrder.build(
                index, 0, documents, num_samples=samples, seq_length=4096, seed=SEED, cache_dir=folder
            )

        def theirs(index: Index = index, samples: int | None = samples) -> tuple[Any, Any, Any]:
            return megatron_order(helpers, index, samples, 4096)

        mine, others = ours(), theirs()
        arrays = (mine.document_index, mine.sample_index, mine.shuffle_index)
        assert all(np.array_equal(a, b) for a, b in zip(arrays, others, strict=True))
        del mine, others, arrays
        compare(f"order: documents of {median} tokens, {epochs} epochs", ours, theirs, rounds)
        with tempfile.TemporaryDirectory() as folder:
            write = seconds(lambda build=ours, folder=folder: build(folder))
            read = min(seconds(lambda build=ours, folder=folder: build(folder)) for _ in range(rounds))
        print(f"    ours built and written to the cache {write:.3f}, taken from it {read:.3f}", flush=True)


def compare_blends(helpers: Any, rounds: int) -> None:
    random = np.random.default_rng(0)
    for corpora, size in [(2, 10**7), (3, 10**7), (10, 10**7), (40, 10**7), (300, 10**6), (2500, 10**5)]:
        weights = (10.0 ** -random.uniform(0, 3, corpora)).tolist()
        used, _ = blend_sizes(weights, size)
        twice = np.array(weights) / np.sum(np.array(weights))
        twice = twice / np.sum(twice)

        def ours(weights: list[float] = weights, used: list[int] = used) -> MegatronBlend:
            return MegatronBlend.of_weights(weights, used, [2**40] * len(weights))

        def theirs(twice: np.ndarray = twice, used: list[int] = used) -> tuple[np.ndarray, np.ndarray]:
            return megatron_blend(helpers, twice, sum(used))

        assert np.array_equal(ours().dataset_index, theirs()[0])
        compare(f"blend: {size:.0e} samples of {corpora} corpora", ours, theirs, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    first = seconds(lambda: MegatronBlend.of_sizes([10**6, 10**6]))
    print(f"compiler loaded (or, the first time, run): {first:.2f} s, once a process\n", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        helpers = compile_helpers(Path(folder))
        print(f"{'seconds':<58} {'ours':>9} {'Megatron':>9} {'ratio':>7}")
        compare_orders(helpers, arguments.documents, arguments.rounds)
        compare_blends(helpers, arguments.rounds)


if __name__ == "__main__":
    main()
