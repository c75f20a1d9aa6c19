"""A fast engine under watch of the library that defines the ids."""

import threading
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.engines import Encoded, Engine, IdArray, interleave
from mindformers_megatron.tokenization.engines.unassigned import has_unassigned

_AUDITED = 0.001
_SHOWN = 24
# Characters of texts that may wait to be audited, as they and their ids stay in memory meanwhile.
_MOST_WAITING = 1 << 20
# 2^32 / golden ratio, odd.
_GOLDEN = 0x9E3779B1


class EngineMismatchError(DataError):
    """A fast engine gave other ids than the library that defines them."""


class GuardedEngine:
    """Encodes by a fast engine, and by the reference what the fast one is not trusted with.

    Texts with unassigned code points go to the reference. One text in a thousand is encoded by both, chosen by chance
    that is the same in every run.

    Args:
        fast: encodes.
        reference: defines the ids.
        audited: share of the texts that both encode.
    """

    def __init__(self, fast: Engine, reference: Engine, *, audited: float = _AUDITED) -> None:
        self._fast = fast
        self._reference = reference
        self._audited_share = audited
        self._of_thread = _OfThread()
        self._beside = ThreadPoolExecutor(thread_name_prefix="mfm-reference")

    @property
    def fast(self) -> Engine:
        """What encodes."""
        return self._fast

    def beside(self, reference: Engine) -> "GuardedEngine":
        """The same fast engine under watch of another instance of the reference."""
        return GuardedEngine(self._fast, reference, audited=self._audited_share)

    @property
    def name(self) -> str:
        """The fast engine's."""
        return self._fast.name

    @property
    def version(self) -> str:
        """The fast engine's."""
        return self._fast.version

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``.

        Raises:
            EngineMismatchError: the audit found a text to which the engines give different ids.
        """
        try:
            return self.encode_ahead(texts)
        finally:
            self.settle()

    def encode_ahead(self, texts: Sequence[str]) -> Encoded:
        """Encodes as ``encode`` does, but for the audit, which goes on until this thread calls ``settle``."""
        state = self._of_thread
        referred = has_unassigned(texts)
        audited = self._choose(texts) & ~referred
        state.audited += int(audited.sum())
        if not referred.any():
            encoded = self._fast.encode(texts)
        else:
            state.referred += int(referred.sum())
            others = self._beside.submit(self._reference.encode, [texts[place] for place in np.flatnonzero(referred)])
            encoded = self._fast.encode([texts[place] for place in np.flatnonzero(~referred)])
            encoded = interleave(encoded, others.result(), referred)
        if audited.any():
            self._begin_audit(texts, encoded, np.flatnonzero(audited))
        return encoded

    def settle(self) -> None:
        """Waits for the audits of what this thread has encoded.

        Raises:
            EngineMismatchError: one found a text to which the engines give different ids.
        """
        waiting, self._of_thread.waiting = self._of_thread.waiting, []
        self._of_thread.characters = 0
        for audit in waiting:
            audit()

    def take_counts(self) -> tuple[int, int]:
        """(texts audited, texts left to the reference) on this thread since it asked last."""
        state = self._of_thread
        counts = state.audited, state.referred
        state.audited = state.referred = 0
        return counts

    def _begin_audit(self, texts: Sequence[str], encoded: Encoded, places: NDArray[np.int64]) -> None:
        ids, lengths = encoded
        stops = np.cumsum(lengths)
        # Copies, which do not hold the others.
        found = np.concatenate([ids[stops[place] - lengths[place] : stops[place]] for place in places]), lengths[places]
        chosen = [texts[place] for place in places]
        expected = self._beside.submit(self._reference.encode, chosen)
        state = self._of_thread
        state.waiting.append(lambda: _compare(chosen, found, expected.result(), self._fast, self._reference))
        state.characters += sum(map(len, chosen))
        if state.characters > _MOST_WAITING:
            self.settle()

    def _choose(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        # By the texts, so that it does not matter which thread encodes them, or when. Multiples of the golden ratio
        # spread evenly, and cost less than a generator to be seeded for each call.
        first = zlib.crc32(texts[0][:256].encode(), len(texts)) if texts else 0
        places = first + np.arange(len(texts), dtype=np.uint64) * np.uint64(_GOLDEN)
        chosen: NDArray[np.bool_] = (places & np.uint64(0xFFFFFFFF)) < self._audited_share * 2**32
        return chosen


class UnguardedEngine:
    """An engine that defines the ids itself, to be used as one under watch is.

    Args:
        engine: the engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.encode_ahead = engine.encode

    def settle(self) -> None:
        """Nothing is under way."""

    def take_counts(self) -> tuple[int, int]:
        """No text is audited, and none left to another."""
        return 0, 0


class _OfThread(threading.local):
    """What is one thread's own: counts, and audits under way."""

    def __init__(self) -> None:
        self.audited = self.referred = 0
        self.waiting: list[Callable[[], None]] = []
        self.characters = 0


def compare(texts: Sequence[str], found: Encoded, fast: Engine, reference: Engine) -> None:
    """Compares the ids of texts with those of the reference.

    Raises:
        EngineMismatchError: they differ; shows where.
    """
    _compare(texts, found, reference.encode(texts), fast, reference)


def _compare(texts: Sequence[str], found: Encoded, expected: Encoded, fast: Engine, reference: Engine) -> None:
    if np.array_equal(found[1], expected[1]) and np.array_equal(found[0], expected[0]):
        return
    stops = [np.cumsum(lengths) for _, lengths in (found, expected)]
    for text, *bounds in zip(texts, stops[0] - found[1], stops[0], stops[1] - expected[1], stops[1], strict=True):
        ids, true_ids = found[0][bounds[0] : bounds[1]], expected[0][bounds[2] : bounds[3]]
        if not np.array_equal(ids, true_ids):
            raise _mismatch(text, ids, true_ids, fast, reference)


def _mismatch(text: str, found: IdArray, expected: IdArray, fast: Engine, reference: Engine) -> EngineMismatchError:
    shorter = min(found.size, expected.size)
    differing = np.flatnonzero(found[:shorter] != expected[:shorter])
    place = int(differing[0]) if differing.size else shorter
    return EngineMismatchError(
        f"{fast.name} {fast.version} gives other ids than {reference.name} {reference.version} for the text that "
        f"begins {text[:_SHOWN]!r}: at token {place}, {found[place : place + 4].tolist()} for "
        f"{expected[place : place + 4].tolist()}; pass --engine {reference.name}, or --on-mismatch hf to have it done"
    )
