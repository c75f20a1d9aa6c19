"""What looking at a pair costs, beside hashing and reading it: processor time of one core, and memory.

Each row is a ratio to SHA-256 of the same ``.bin`` in the same run: 2.0 is twice as fast. Memory is what the process
held at most, beyond what it held before; a pair four times as large must not need more.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from mindformers_megatron.format.digests import DigestDocuments
from mindformers_megatron.format.stats import pair_stats
from mindformers_megatron.format.verify.pair import verify_pair
from mindformers_megatron.format.writer import IndexedDatasetWriter

VOCABULARY = 50_000
MEAN_LENGTH = 400


def write_pair(prefix: Path, megabytes: int) -> tuple[str, int]:
    """Writes documents of random ids that end with 0; returns prefix and number."""
    rng = np.random.default_rng(0)
    with IndexedDatasetWriter(prefix, np.uint16, sha256=False) as writer:
        for _ in range(max(megabytes // 20, 1)):
            lengths = rng.geometric(1 / MEAN_LENGTH, 10_000_000 // MEAN_LENGTH)
            tokens = rng.integers(1, VOCABULARY, lengths.sum()).astype(np.uint16)
            tokens[np.cumsum(lengths) - 1] = 0
            writer.add_documents(tokens, lengths)
    return writer.prefix, writer.finalize().num_documents


def hash_file(prefix: str, documents: int) -> None:
    with Path(f"{prefix}.bin").open("rb") as file:
        digest_of = hashlib.sha256()
        while data := file.read(1 << 22):
            digest_of.update(data)


def read_file(prefix: str, documents: int) -> None:
    with Path(f"{prefix}.bin").open("rb", buffering=0) as file:
        buffer = bytearray(1 << 22)
        while file.readinto(buffer):
            pass


def verify_quickly(prefix: str, documents: int) -> None:
    assert verify_pair(prefix, vocab_size=VOCABULARY, eod_id=0).sound


def verify_fully(prefix: str, documents: int) -> None:
    assert verify_pair(prefix, full=True, vocab_size=VOCABULARY, eod_id=0).sound


def digest(prefix: str, documents: int) -> None:
    DigestDocuments(prefix, 0, documents).run(lambda count: None)


def count(prefix: str, documents: int) -> None:
    assert pair_stats(prefix, eod_id=0).ending_in_eod == documents


WORK: dict[str, Callable[[str, int], None]] = {
    "sha256": hash_file,
    "read": read_file,
    "verify": verify_quickly,
    "verify --full": verify_fully,
    "stats": count,
    "diff, digests of one side": digest,
}


def measure(name: str, prefix: str, documents: int) -> tuple[float, float]:
    """(seconds, MB) in a process of its own."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_measured, args=(theirs, name, prefix, documents))
    process.start()
    seconds, memory = ours.recv()
    process.join()
    return seconds, memory


def _measured(pipe: Connection, name: str, prefix: str, documents: int) -> None:
    # Forgets the most that was held until now.
    Path("/proc/self/clear_refs").write_text("5")
    before, begun = _memory("VmRSS"), time.process_time()
    WORK[name](prefix, documents)
    seconds = time.process_time() - begun
    pipe.send((seconds, _memory("VmHWM") - before))


def _memory(name: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[200, 800])
    args = parser.parse_args()
    print(f"{'MB':>6}  {'work':<26} {'seconds':>8} {'× sha256':>9} {'memory, MB':>11}")
    for megabytes in args.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            prefix, documents = write_pair(Path(folder) / "pair", megabytes)
            read_file(prefix, documents)
            ceiling = 0.0
            for name in WORK:
                seconds, memory = min(measure(name, prefix, documents) for _ in range(3))
                ceiling = ceiling or seconds
                print(
                    f"{megabytes:>6}  {name:<26} {seconds:>8.2f} {ceiling / max(seconds, 1e-3):>9.1f} {memory:>11.0f}"
                )


if __name__ == "__main__":
    main()
