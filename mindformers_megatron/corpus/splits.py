"""Which documents train, validate and test: every one in one part, with all that resemble it.

Documents of a cluster of duplicates, and documents of equal content, stay together. Which part they go to follows from
a hash of their content and the seed: not from their order, nor from the cut into shards. Each source gives each part
its share, so that validation is like training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

REST = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """How a corpus is split.

    Attributes:
        sizes: by the name of the part, how many documents it gets: a share below 1, or a count of 1 or more. What is
            left is ``train``.
        seed: another one draws other documents.
    """

    sizes: Mapping[str, float] = field(default_factory=lambda: {"validation": 0.005, "test": 0.005})
    seed: int = 1

    def __post_init__(self) -> None:
        for name, size in self.sizes.items():
            if not name or name == REST:
                raise ConfigError(f"splits: {name!r} cannot be sized; {REST} is what the other parts leave")
            if not (0 < size < 1 or (size >= 1 and size == int(size))):
                raise ConfigError(f"splits: {name} is {size}; give a share between 0 and 1, or a count of documents")
        total = sum(size for size in self.sizes.values() if size < 1)
        if total >= 1:
            raise ConfigError(f"splits: the shares add up to {total:g}; leave something to {REST}")

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, ``train`` first."""
        return (REST, *self.sizes)


def wanted(documents: I64, options: SplitOptions) -> I64:
    """Returns how many documents each part takes of each source: int64[parts, sources].

    Args:
        documents: int64[sources], how many each has.
        options: the parts; the sum over the sources is what each asks for.

    Raises:
        ConfigError: more documents are asked for than there are.
    """
    total = int(documents.sum())
    taken = np.zeros((len(options.parts), documents.size), dtype=np.int64)
    for part, (name, size) in enumerate(options.sizes.items(), 1):
        count = round(size * total) if size < 1 else int(size)
        left = documents - taken.sum(axis=0)
        if count > left.sum():
            raise ConfigError(f"splits: {name} asks for {count:,} documents; there are {left.sum():,} left for it")
        exact = documents * (count / max(total, 1))
        taken[part] = _round(np.minimum(exact, left), left, count)
    return taken


def _round(exact: npt.NDArray[np.float64], most: I64, count: int) -> I64:
    """Whole numbers near ``exact``, none above ``most``, that add up to ``count``; the largest rests are rounded up."""
    whole = np.floor(exact).astype(np.int64)
    while (missing := count - int(whole.sum())) > 0:
        open_ = np.flatnonzero(whole < most)
        order = open_[np.argsort(whole[open_] - exact[open_], kind="stable")]
        whole[order[:missing]] += 1
    return whole


def fill(sizes: I64, room: int) -> npt.NDArray[np.bool_]:
    """Takes groups in order, passing over those too large for the room that is left: bool[groups]."""
    taken = np.zeros(sizes.size, dtype=np.bool_)
    rest = np.flatnonzero(sizes <= room)
    while rest.size:
        fitting = int(np.searchsorted(np.cumsum(sizes[rest]), room, side="right"))
        taken[rest[:fitting]] = True
        room -= int(sizes[rest[:fitting]].sum())
        # The first that did not fit is too large from now on, and so are all of its size.
        rest = rest[fitting:]
        rest = rest[sizes[rest] <= room]
    return taken
