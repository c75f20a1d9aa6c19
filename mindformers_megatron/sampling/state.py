"""The cursor of a run on disk: a small JSON, the same on every rank, valid under any ranks, workers and batch sizes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindformers_megatron._version import __version__
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import write_atomically

FORMAT = "mindformers-megatron data state"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusState:
    """Where one corpus stands.

    Attributes:
        name: Its name in the run.
        fingerprint: Identity of its files' content.
        tokenizer: Fingerprint of its tokenizer; None where no metadata tells.
        epoch: The epoch that its next sample belongs to, from 0.
        cursor: Samples it has given, or been stepped over.
    """

    name: str
    fingerprint: str
    tokenizer: str | None
    epoch: int
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseState:
    """A phase of the run (see ``schedule.Phase``), its blend and counts in the order of ``DataState.corpora``."""

    first: int
    position: int
    parts: tuple[int, ...]
    base: tuple[int, ...]
    skips: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataState:
    """All that a run needs to go on with the very next sample.

    Attributes:
        consumed_samples: Samples delivered to training steps, over all ranks. Not those read ahead.
        plan: The fields of the plan that may never change in a run, by name; in JSON's types.
        mix: The mix that the options asked for, as ``Mix.to_plain`` gives it.
        corpora: Where each corpus that the run has ever had stands, in the order of its blends.
        phases: The phases of the run, past and to come.
    """

    consumed_samples: int
    plan: Mapping[str, Any]
    mix: Mapping[str, Any]
    corpora: tuple[CorpusState, ...]
    phases: tuple[PhaseState, ...]

    @property
    def fingerprint(self) -> str:
        """64 hex digits over all that determines the samples; paths, batch sizes and progress do not count."""
        corpora = [[corpus.name, corpus.fingerprint] for corpus in self.corpora]
        phases = [_plain(phase) for phase in self.phases]
        text = json.dumps([self.plan, corpora, phases], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """The state as JSON text."""
        body = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": __version__,
            "fingerprint": self.fingerprint,
            "consumed_samples": self.consumed_samples,
            "plan": self.plan,
            "mix": self.mix,
            "corpora": [_plain(corpus) for corpus in self.corpora],
            "phases": [_plain(phase) for phase in self.phases],
        }
        return json.dumps(body, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str = "data state") -> "DataState":
        """Reads a state.

        Args:
            text: JSON text.
            where: What to call it in errors, a path for example.

        Raises:
            DataError: One line, for what is no JSON, of another program, from a later version, incomplete or edited.
        """
        try:
            body = json.loads(text)
        except ValueError as error:
            raise DataError(
                f"{where}: not JSON ({error}); it is damaged or cut short, take the state of another checkpoint"
            ) from None
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise DataError(f"{where}: not a data state of mindformers-megatron; expected format {FORMAT!r}")
        version = body.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise DataError(
                f"{where}: version {version!r}, this program reads up to {VERSION}; update mindformers-megatron"
            )
        try:
            state = cls(
                consumed_samples=_typed(body, "consumed_samples", int),
                plan=_typed(body, "plan", dict),
                mix=_mix(_typed(body, "mix", dict)),
                corpora=tuple(_corpus(item) for item in _typed(body, "corpora", list)),
                phases=tuple(_phase(item) for item in _typed(body, "phases", list)),
            )
            fingerprint = _typed(body, "fingerprint", str)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{where}: incomplete data state ({error}); take the state of another checkpoint") from None
        sizes = {len(values) for phase in state.phases for values in (phase.parts, phase.base)}
        if state.consumed_samples < 0 or sizes - {len(state.corpora)} or state.fingerprint != fingerprint:
            raise DataError(f"{where}: the data state contradicts its own fingerprint; it was edited or damaged")
        return state

    def save(self, path: str | Path) -> None:
        """Writes the state atomically."""
        write_atomically(Path(path), (self.to_json() + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> "DataState":
        """Reads the state at ``path``; see ``from_json`` for what is refused."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read as a data state ({error})") from None
        return cls.from_json(text, str(path))


def _plain(record: CorpusState | PhaseState) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _typed(mapping: Any, name: str, *kinds: type) -> Any:
    value = mapping[name]
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}")
    return value


def _whole(values: Sequence[Any]) -> tuple[int, ...]:
    if not all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values):
        raise TypeError(f"{values!r} are not all whole numbers ≥ 0")
    return tuple(values)


def _corpus(item: Any) -> CorpusState:
    return CorpusState(
        name=_typed(item, "name", str),
        fingerprint=_typed(item, "fingerprint", str),
        tokenizer=_typed(item, "tokenizer", str, type(None)),
        epoch=_typed(item, "epoch", int),
        cursor=_typed(item, "cursor", int),
    )


def _phase(item: Any) -> PhaseState:
    first, position = _whole([item["first"], item["position"]])
    skips = tuple(_whole(pair) for pair in _typed(item, "skips", list))
    parts = _whole(_typed(item, "parts", list))
    if not any(parts):
        raise TypeError("a phase without parts")
    return PhaseState(
        first=first,
        position=position,
        parts=parts,
        base=_whole(_typed(item, "base", list)),
        skips=tuple((begin, end) for begin, end in skips),
    )


def _mix(item: dict[str, Any]) -> dict[str, Any]:
    for begin, parts in _typed(item, "steps", list):
        _whole([begin, *parts.values()])
    for pair in _typed(item, "skip_samples", list):
        _whole(pair)
    return item
