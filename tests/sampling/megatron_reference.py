"""Megatron's order as its documentation tells it, step by step and slowly: what the fast one must equal."""

import math
from collections.abc import Sequence

import numpy as np

from mindformers_megatron.format.index import Index


def index_of(lengths: Sequence[int], dtype: type = np.uint16) -> Index:
    """An index of these sequences, one document each, without files."""
    sizes = np.array(lengths, dtype=np.int32)
    ends = np.cumsum(sizes, dtype=np.int64)
    return Index(
        prefix="corpus",
        dtype=np.dtype(dtype),
        sequence_lengths=sizes,
        sequence_pointers=(ends - sizes) * np.dtype(dtype).itemsize,
        document_indices=np.arange(sizes.size + 1, dtype=np.int64),
        sequence_modes=None,
        num_tokens=int(ends[-1]),
    )


def reference_order(
    lengths: Sequence[int],
    begin: int,
    end: int,
    *,
    num_samples: int | None,
    seq_length: int,
    seed: int,
    extra_token: bool,
    drop_last: bool = True,
) -> tuple[list[int], list[tuple[int, int]], list[int], int]:
    """(document index, sample index, shuffle index, epochs)."""
    extra = int(extra_token)
    tokens = sum(lengths[begin:end])
    epochs = 1
    if num_samples is not None:
        while epochs * tokens < num_samples * seq_length + extra:
            epochs += 1
    separate = False
    before_last = 0
    if epochs > 1:
        assert num_samples is not None
        before_last = ((epochs - 1) * tokens - extra) // seq_length
        separate = num_samples - before_last < int(0.80 * ((tokens - extra) // seq_length))
    random = np.random.RandomState(seed)
    documents: list[int] = []
    for block in [epochs - 1, 1] if separate else [epochs]:
        part = np.array([sequence for _ in range(block) for sequence in range(begin, end)], dtype=np.int32)
        random.shuffle(part)
        documents += part.tolist()
    total = epochs * tokens - extra
    count = total // seq_length if drop_last else math.ceil(total / seq_length)
    samples = _walk(lengths, documents, count, seq_length, extra)
    order: list[int] = []
    for first, last in [(0, before_last), (before_last, count)] if separate else [(0, count)]:
        part = np.arange(first, last, dtype=np.uint32)
        random.shuffle(part)
        order += part.tolist()
    return documents, samples, order, epochs


def _walk(
    lengths: Sequence[int], documents: list[int], count: int, seq_length: int, extra: int
) -> list[tuple[int, int]]:
    samples = [(0, 0)]
    place = offset = 0
    for _ in range(count):
        missing = seq_length + extra
        while True:
            here = lengths[documents[place]] - offset
            if here >= missing:
                offset += missing - extra
                break
            missing -= here
            if place == len(documents) - 1:
                offset = lengths[documents[place]] - extra
                break
            place, offset = place + 1, 0
        samples.append((place, offset))
    return samples


def reference_sample(
    stream: np.ndarray,
    starts: Sequence[int],
    lengths: Sequence[int],
    documents: Sequence[int],
    begin: tuple[int, int],
    end: tuple[int, int],
    extra: int,
) -> list[int]:
    """The tokens of a sample, taken one sequence after the other."""
    taken: list[int] = []
    for place in range(begin[0], end[0] + 1):
        sequence = documents[place]
        first = begin[1] if place == begin[0] else 0
        last = end[1] + extra if place == end[0] else lengths[sequence]
        taken += stream[starts[sequence] + first : starts[sequence] + last].tolist()
    return taken


def reference_mix(
    weights: Sequence[float], size: int, limits: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    """(corpus, how-manieth sample of it) of each step of a blend."""
    counts = [0] * len(weights)
    corpora, positions = [], []
    for step in range(size):
        best, winner = -math.inf, -1
        for corpus, weight in enumerate(weights):
            if limits is not None and counts[corpus] == limits[corpus]:
                continue
            error = weight * max(float(step), 1.0) - counts[corpus]
            if error > best:
                best, winner = error, corpus
        corpora.append(winner)
        positions.append(counts[winner])
        counts[winner] += 1
    return corpora, positions
