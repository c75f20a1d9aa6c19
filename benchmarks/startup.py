"""What a run waits for before its first sample, and what it keeps in memory, on a corpus of 20 million documents.

The corpus is a sparse file: 13 billion tokens by their lengths, nearly nothing on disk. Megatron-core is measured
beside it where it is installed (``pip install megatron-core torch``).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np

DOCUMENTS = 20_000_000
TOKENS_PER_DOCUMENT = 650
SEQ_LENGTH = 4096

OURS = """
    import json, sys, time
    import numpy as np
    import mindformers_megatron.sampling.plan as plan
    def rss():
        return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
    prefixes, epochs = json.loads(sys.argv[1]), int(sys.argv[2])
    imports, started = rss(), time.perf_counter()
    options = dict(columns=["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"], loss_mask="boundary")
    opened = plan.SamplePlan.build(prefixes, seq_length=4096, reset_position_ids=True, **options)
    opened.num_samples * epochs
    opened.read(np.array([(epochs - 1) * opened.num_samples]))
    print(json.dumps([time.perf_counter() - started, rss() - imports]))
"""

MEGATRON = """
    import json, sys, tempfile, time
    import torch
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split
    def rss():
        return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
    class Tokenizer:
        eod, pad, vocab_size, unique_identifiers = 0, -1, 50_000, {"class": "none"}
    (prefix,), epochs = json.loads(sys.argv[1]), int(sys.argv[2])
    imports, started = rss(), time.perf_counter()
    dataset = IndexedDataset(prefix, mmap=True)
    config = GPTDatasetConfig(random_seed=1234, sequence_length=4096, blend=([prefix], None), split="1,0,0",
        path_to_cache=tempfile.mkdtemp(), tokenizer=Tokenizer(), reset_position_ids=True, reset_attention_mask=False,
        eod_mask_loss=True, create_attention_mask=False)
    import numpy
    samples = epochs * int(dataset.sequence_lengths.sum(dtype=numpy.int64)) // 4096
    built = GPTDataset(dataset, prefix, numpy.arange(len(dataset.sequence_lengths), dtype=numpy.int32), samples,
        Split.train, config)
    built[0]
    print(json.dumps([time.perf_counter() - started, rss() - imports]))
"""


def make_corpus(prefix: Path, documents: int) -> None:
    """Writes a pair of ``documents`` documents whose ``.bin`` is a hole."""
    lengths = np.random.default_rng(0).poisson(TOKENS_PER_DOCUMENT, documents).astype(np.int32)
    pointers = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    with prefix.with_suffix(".bin").open("wb") as tokens:
        tokens.truncate(int(pointers[-1]) * 2)
    with prefix.with_suffix(".idx").open("wb") as index:
        index.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + b"\x08")
        index.write(documents.to_bytes(8, "little") + (documents + 1).to_bytes(8, "little"))
        lengths.tofile(index)
        (pointers[:-1] * 2).tofile(index)
        np.arange(documents + 1, dtype=np.int64).tofile(index)


def measure(code: str, prefixes: list[str], epochs: int) -> tuple[float, float] | None:
    """Seconds to the first sample and MB above the imports, in a fresh process; None where a package is missing."""
    command = [sys.executable, "-c", textwrap.dedent(code), json.dumps(prefixes), str(epochs)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        raise SystemExit(done.stderr)
    seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes


def show(name: str, result: tuple[float, float] | None) -> None:
    told = "not installed" if result is None else f"{result[0]:8.3f} s {result[1]:8.0f} MB"
    print(f"{name:44} {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--corpora", type=int, default=2500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "wiki"
        make_corpus(prefix, args.documents)
        print(f"first sample of {args.documents:,} documents, memory above the imports")
        for epochs in (1, 1000):
            show(f"mindformers-megatron, {epochs} epochs", measure(OURS, [str(prefix)], epochs))
        for epochs in (1, 4):
            show(f"megatron-core, {epochs} epochs", measure(MEGATRON, [str(prefix)], epochs))
        started = time.perf_counter()
        many = []
        for number in range(args.corpora):
            make_corpus(Path(folder) / f"part_{number:05d}", 2000)
            many.append(str(Path(folder) / f"part_{number:05d}"))
        print(f"({args.corpora} corpora made in {time.perf_counter() - started:.1f} s)")
        show(f"mindformers-megatron, {args.corpora} corpora", measure(OURS, many, 1))


if __name__ == "__main__":
    main()
