"""The step ``classifier``: a judge of the user's own, for toxicity or quality, in a file."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError

_LABEL = "__label__"
_MAGIC = (793712314).to_bytes(4, "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """Drops documents by the probability that a fastText model gives to a label.

    The model is a file that fastText wrote (``.bin`` or ``.ftz``, supervised). Line ends are spaces to it. It is data,
    no code of it is run.

    Attributes:
        model: the file.
        label: with or without ``__label__``.
        max_score: documents with a higher probability of the label are dropped.
        min_score: documents with a lower one are dropped.
    """

    name: ClassVar[str] = "classifier"
    version: ClassVar[int] = 1

    model: str
    label: str
    max_score: float = 1.0
    min_score: float = 0.0

    def __post_init__(self) -> None:
        if (self.min_score, self.max_score) == (0.0, 1.0):
            raise ConfigError("no limit given; give max_score or min_score")
        _load(self.model)

    @property
    def files(self) -> tuple[Path, ...]:
        """What else the result depends on."""
        return (Path(self.model),)

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        model = _load(self.model)
        wanted = _LABEL + self.label.removeprefix(_LABEL)
        drops: list[Drop | None] = []
        for text in batch.texts:
            labels, scores = model.predict(text.replace("\n", " "), k=-1)
            score = next((float(score) for label, score in zip(labels, scores, strict=True) if label == wanted), 0.0)
            if score > self.max_score:
                drops.append(Drop(self.label, f"{score:.3f} where at most {self.max_score:g} is asked"))
            elif score < self.min_score:
                drops.append(Drop(f"not {self.label}", f"{score:.3f} where at least {self.min_score:g} is asked"))
            else:
                drops.append(None)
        return sift(batch, drops, tally)


@functools.lru_cache(maxsize=8)
def _load(path: str) -> Any:
    try:
        with Path(path).open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise ConfigError(f"model {path}: cannot be read: {error.strerror}") from None
    if head != _MAGIC:
        raise ConfigError(f"model {path}: is no fastText model (its first bytes are {head.hex()}, not {_MAGIC.hex()})")
    try:
        return needed("fasttext", "step classifier").load_model(path)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"model {path}: cannot be loaded: {error}") from None
