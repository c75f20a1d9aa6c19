"""What keeping documents whole costs and gives: documents cut, padding, and speed, beside stream order and Megatron's.

    python benchmarks/document_order.py [--documents 200000] [--seq-length 4096]

A document is cut if it would fit a sample and yet lies in more than one. Lengths are lognormal, as those
of web text are.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from mindformers_megatron import IndexedDatasetWriter, SamplePlan
from mindformers_megatron.sampling.pieces import Pieces

ROWS = 2048


def write_corpus(prefix: Path, documents: int) -> np.ndarray:
    """Writes a pair of random tokens; returns the lengths of its documents."""
    random = np.random.default_rng(0)
    lengths = np.maximum(2, random.lognormal(6, 1.1, documents).astype(np.int64))
    with IndexedDatasetWriter(str(prefix), np.dtype(np.uint16)) as writer:
        writer.add_documents(random.integers(1, 60_000, lengths.sum(), dtype=np.uint16), lengths)
    return lengths


def cut_documents(pieces: Pieces, lengths: np.ndarray, seq_length: int) -> tuple[int, int]:
    """Documents that would fit a sample and lie in more than one, and how many would fit.

    Samples share a token, the last label of one and the first input of the other; it cuts nothing.
    """
    starts = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    edges = np.unique(pieces.start)
    fits = lengths <= seq_length + 1
    inside = np.searchsorted(edges, starts + lengths - 1, side="left") > np.searchsorted(edges, starts, side="right")
    return int(np.count_nonzero(inside & fits)), int(np.count_nonzero(fits))


def main() -> None:
    parser = argparse.ArgumentParser(description="Documents cut, padding and speed of the orders.")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--seq-length", type=int, default=4096)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "web"
        lengths = write_corpus(prefix, args.documents)
        tokens = int(lengths.sum())
        print(f"{args.documents:,} documents, {tokens:,} tokens, seq_length {args.seq_length}")
        print(f"{'order':10}{'opened in':>12}{'samples':>10}{'cut though they fit':>24}{'padding':>10}{'rows/s':>10}")
        for order in ("stream", "megatron", "document"):
            started = time.perf_counter()
            plan = SamplePlan.build(str(prefix), seq_length=args.seq_length, order=order)
            opened = time.perf_counter() - started
            row = plan.table()[0]
            samples = round(row.samples / row.epochs)
            pieces = plan.pieces(row.name, np.arange(samples, dtype=np.int64))
            cut, fitting = cut_documents(pieces, lengths, args.seq_length)
            padding = 1 - pieces.length.sum() / (samples * (args.seq_length + 1))
            rows = min(ROWS, samples)
            started = time.perf_counter()
            for first in range(0, rows, 64):
                plan.read(np.arange(first, min(first + 64, rows)))
            speed = rows / (time.perf_counter() - started)
            share = f"{cut:,} ({cut / fitting:.2%})"
            print(f"{order:10}{opened:>10.3f} s{samples:>10,}{share:>24}{padding:>10.2%}{speed:>10,.0f}")


if __name__ == "__main__":
    main()
