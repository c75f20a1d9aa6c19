"""What it costs to go on at a far sample: this package, and MindFormers' own Megatron loader.

    python benchmarks/resume.py [--rows 20000]

Ours is told where to start; MindFormers puts a ``take`` behind its loader, so that MindSpore reads every row
that a resumed run skips. It is measured over ``--rows`` rows and reckoned up to 100,000.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from loader import BATCH, CASES, built_in, ours, prepare_process, write_corpora

from mindformers_megatron import SamplePlan

SEQ_LENGTH = 4096
COLUMNS = CASES["4 columns"]


def milliseconds(prefixes: list[str], sample: int) -> tuple[float, float]:
    """To read one batch at ``sample``, from the plan and through a new MindSpore pipeline: the best of five."""
    plan = SamplePlan.build(prefixes, dataset_weights=[0.5, 0.3, 0.2], seq_length=SEQ_LENGTH)
    from_plan, from_pipeline = [], []
    for _ in range(5):
        started = time.perf_counter()
        plan.read(np.arange(sample, sample + BATCH))
        from_plan.append(time.perf_counter() - started)
        started = time.perf_counter()
        loader = ours(prefixes, COLUMNS, SEQ_LENGTH, 100_000)
        loader.consumed_samples = sample
        next(loader.batch(BATCH, drop_remainder=True).create_tuple_iterator(num_epochs=1, output_numpy=True))
        from_pipeline.append(time.perf_counter() - started)
    return min(from_plan) * 1000, min(from_pipeline) * 1000


def built_in_seconds(prefixes: list[str], rows: int) -> float:
    """For MindFormers' own pipeline to skip ``rows`` rows."""
    dataset = built_in(prefixes, COLUMNS, SEQ_LENGTH, rows + 100).take(rows + 100).batch(BATCH, drop_remainder=True)
    seconds = []
    for steps in (0, rows // BATCH):
        dataset.set_init_step(steps)
        started = time.perf_counter()
        next(dataset.create_tuple_iterator(num_epochs=1, output_numpy=True))
        seconds.append(time.perf_counter() - started)
    return seconds[1] - seconds[0]


def main() -> None:
    parser = argparse.ArgumentParser(description="What it costs to go on at a far sample.")
    parser.add_argument("--rows", type=int, default=20_000)
    args = parser.parse_args()
    prepare_process()
    with tempfile.TemporaryDirectory() as folder:
        prefixes = write_corpora(Path(folder))
        print(f"first batch of {BATCH} rows of {SEQ_LENGTH} tokens at a sample")
        for sample in (0, 10**5, 10**8, 10**12):
            from_plan, from_pipeline = milliseconds(prefixes, sample)
            print(
                f"ours, sample {sample:>17,}: {from_plan:6.2f} ms from the plan, {from_pipeline:6.1f} ms by a pipeline"
            )
        seconds = built_in_seconds(prefixes, args.rows)
        print(f"MindFormers' own, {args.rows:,} rows: {seconds:.2f} s, {seconds / args.rows * 1e5:.1f} s for 100,000")


if __name__ == "__main__":
    main()
