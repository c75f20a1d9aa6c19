"""Rows per second through MindSpore's pipeline: this package, MindFormers' own Megatron loader, and the ceiling.

    python benchmarks/loader.py [--seq-length 4096] [--rows 8192] [--rounds 3]

The ceiling is a source that returns the same ready arrays for every row: what MindSpore itself can move, row by row.
They never leave the processor's cache; so the table also shows what is left of the ceiling when ready rows lie in
memory of their own, as those of any real source do. All are built as MindFormers builds them (a dataset, then
``.batch(4)``) and read in turn; the best round counts. Ours reads whole batches, which spares MindSpore the work for
each row: it may get beyond that ceiling.
MindFormers compiles its loader's helper first: that takes make, g++ and ``pip install pybind11``.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mindformers.core.context.build_context import build_context
from mindformers.dataset import BlendedMegatronDatasetDataLoader
from mindformers.tools.register import MindFormerConfig
from mindspore.dataset import GeneratorDataset

from mindformers_megatron.format.writer import IndexedDatasetWriter
from mindformers_megatron.loader import BlendedMegatronDataLoader

TOKENS = 24_000_000
BATCH = 4
OWN_ROWS = 256
CASES = {
    "4 columns": ["input_ids", "labels", "loss_mask", "position_ids"],
    "5 columns, masks compressed": ["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"],
}


class ReadyRows:
    """Rows that are in memory already, in turn."""

    def __init__(self, ready: list[tuple[Any, ...]], rows: int) -> None:
        self.ready, self.rows = ready, rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        return self.ready[number % len(self.ready)]


def prepare_process() -> None:
    """MindFormers on the CPU, and no word from our loader."""
    logging.getLogger("mindformers_megatron").setLevel(logging.WARNING)
    # MindFormers' Makefile asks the first python3 of the path for pybind11.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    build_context(MindFormerConfig(context={"mode": 0, "device_target": "CPU"}, use_parallel=False))


def write_corpora(folder: Path) -> list[str]:
    random = np.random.default_rng(0)
    prefixes = []
    for name, share in (("wiki", 0.5), ("code", 0.3), ("chat", 0.2)):
        lengths = np.maximum(1, random.lognormal(6, 1, int(TOKENS * share / 670)).astype(np.int64))
        flat = random.integers(3, 50_000, lengths.sum(), dtype=np.uint16)
        flat[np.cumsum(lengths) - 1] = 0
        with IndexedDatasetWriter(str(folder / name), np.dtype(np.uint16)) as writer:
            writer.add_documents(flat, lengths)
            writer.finalize()
        prefixes.append(str(folder / name))
    return prefixes


def ours(prefixes: list[str], columns: list[str], seq_length: int, rows: int) -> GeneratorDataset:
    reset = "actual_seq_len" in columns
    return BlendedMegatronDataLoader(
        dataset_dir=prefixes,
        dataset_weights=[0.5, 0.3, 0.2],
        seq_length=seq_length,
        num_samples=rows,
        batch_size=BATCH,
        column_names=columns,
        loss_mask="boundary" if reset else "none",
        reset_position_ids=reset,
    )


def built_in(prefixes: list[str], columns: list[str], seq_length: int, rows: int) -> GeneratorDataset:
    compressed = "actual_seq_len" in columns
    config = MindFormerConfig(
        seed=1234,
        split="1, 0, 0",
        seq_length=seq_length,
        eod_mask_loss=compressed,
        reset_position_ids=compressed,
        reset_attention_mask=compressed,
        create_attention_mask=False,
        create_compressed_eod_mask=compressed,
        eod_pad_length=128,
        eod=0,
        pad=1,
        mmap_bin_files=True,
        path_to_cache=str(Path(prefixes[0]).parent / "cache"),
        data_path=[part for prefix, weight in zip(prefixes, "532", strict=True) for part in (weight, prefix)],
    )
    return BlendedMegatronDatasetDataLoader("GPTDataset", [rows, 0, 0], config, column_names=columns)


def rate(build: Callable[[], GeneratorDataset], rows: int) -> tuple[float, float]:
    """Builds a dataset and reads it once: (seconds to the first batch, rows per second after it)."""
    begin = time.perf_counter()
    iterator = build().batch(BATCH, drop_remainder=True).create_tuple_iterator(num_epochs=1, output_numpy=True)
    next(iterator)
    first = time.perf_counter()
    batches = 0
    for _ in iterator:
        batches += 1
        if batches * BATCH >= rows:
            break
    return first - begin, batches * BATCH / (time.perf_counter() - first)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows per second: ours, MindFormers' own loader, and the ceiling.")
    parser.add_argument("--seq-length", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    prepare_process()
    with tempfile.TemporaryDirectory() as folder:
        prefixes = write_corpora(Path(folder))
        results: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(args.rounds):
            for case, columns in CASES.items():
                asked = (prefixes, columns, args.seq_length, args.rows)
                source = ours(*asked).source
                own = [tuple(column.copy() for column in source[number]) for number in range(OWN_ROWS)]
                ready, apart = ReadyRows(own[:1], args.rows), ReadyRows(own, args.rows)
                builders: dict[str, Callable[[], GeneratorDataset]] = {
                    "ours": lambda asked=asked: ours(*asked),
                    "MindFormers' own": lambda asked=asked: built_in(*asked),
                    "ready, apart": lambda ready=apart, columns=columns: GeneratorDataset(
                        ready, columns, shuffle=False
                    ),
                    "ceiling": lambda ready=ready, columns=columns: GeneratorDataset(ready, columns, shuffle=False),
                }
                for name, build in builders.items():
                    results.setdefault((case, name), []).append(rate(build, args.rows))
    print(f"\nseq_length {args.seq_length}, batches of {BATCH}, best of {args.rounds} rounds of {args.rows} rows")
    print(f"{'':30}{'':20}{'rows/s':>10}{'of ceiling':>12}{'first batch':>13}")
    for (case, name), rounds in results.items():
        best = max(rows_per_second for _, rows_per_second in rounds)
        ceiling = max(rows_per_second for _, rows_per_second in results[case, "ceiling"])
        start = min(seconds for seconds, _ in rounds)
        print(f"{case:30}{name:20}{best:10,.0f}{best / ceiling:12.0%}{start:11.3f} s")


if __name__ == "__main__":
    main()
