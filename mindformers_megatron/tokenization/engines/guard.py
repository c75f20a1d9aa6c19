"""A fast engine under watch of the library that defines the ids."""

import threading
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.engines import Encoded, Engine, IdArray, interleave
from mindformers_megatron.tokenization.engines.unassigned import has_unassigned

_AUDITED = 0.001
_SHOWN = 24
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
        self._counts = threading.local()

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
        referred = has_unassigned(texts)
        audited = self._choose(texts) & ~referred
        self._counts.audited = getattr(self._counts, "audited", 0) + int(audited.sum())
        if not referred.any():
            encoded = self._fast.encode(texts)
        else:
            self._counts.referred = getattr(self._counts, "referred", 0) + int(referred.sum())
            encoded = interleave(
                self._fast.encode([texts[place] for place in np.flatnonzero(~referred)]),
                self._reference.encode([texts[place] for place in np.flatnonzero(referred)]),
                referred,
            )
        if audited.any():
            ids, lengths = encoded
            chosen = np.repeat(audited, lengths)
            texts = [texts[place] for place in np.flatnonzero(audited)]
            compare(texts, (ids[chosen], lengths[audited]), self._fast, self._reference)
        return encoded

    def take_counts(self) -> tuple[int, int]:
        """(texts audited, texts left to the reference) on this thread since it asked last."""
        counts = getattr(self._counts, "audited", 0), getattr(self._counts, "referred", 0)
        self._counts.audited = self._counts.referred = 0
        return counts

    def _choose(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        # By the texts, so that it does not matter which thread encodes them, or when. Multiples of the golden ratio
        # spread evenly, and cost less than a generator to be seeded for each call.
        first = zlib.crc32(texts[0][:256].encode(), len(texts)) if texts else 0
        places = first + np.arange(len(texts), dtype=np.uint64) * np.uint64(_GOLDEN)
        chosen: NDArray[np.bool_] = (places & np.uint64(0xFFFFFFFF)) < self._audited_share * 2**32
        return chosen


def compare(texts: Sequence[str], found: Encoded, fast: Engine, reference: Engine) -> None:
    """Compares the ids of texts with those of the reference.

    Raises:
        EngineMismatchError: they differ; shows where.
    """
    expected = reference.encode(texts)
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
