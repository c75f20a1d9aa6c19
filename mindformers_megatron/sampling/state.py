"""The cursor of a run on disk: a small JSON, the same on every rank, valid under any ranks, workers and batch sizes."""

import hashlib
import json
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
        part: Its parts in the blend; its share is part / sum of parts.
        epoch: The epoch that its next sample belongs to, from 0.
        cursor: Samples it has given.
    """

    name: str
    fingerprint: str
    tokenizer: str | None
    part: int
    epoch: int
    cursor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataState:
    """All that a run needs to go on with the very next sample.

    Attributes:
        consumed_samples: Samples delivered to training steps, over all ranks. Not those read ahead.
        plan: The fields that determine the samples, beside the corpora, by name; in plain JSON types.
        corpora: Where each corpus stands, in the plan's order.
        fingerprint: Of the plan: of ``plan`` and the corpora's names, contents and shares.
    """

    consumed_samples: int
    plan: dict[str, Any]
    corpora: tuple[CorpusState, ...]
    fingerprint: str

    def to_json(self) -> str:
        """The state as JSON text."""
        body = {
            "format": FORMAT,
            "version": VERSION,
            "written_by": __version__,
            "fingerprint": self.fingerprint,
            "consumed_samples": self.consumed_samples,
            "plan": self.plan,
            "corpora": [{name: getattr(corpus, name) for name in CorpusState.__slots__} for corpus in self.corpora],
        }
        return json.dumps(body, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str = "data state") -> "DataState":
        """Reads a state.

        Args:
            text: JSON text.
            where: What to call it in errors, a path for example.

        Raises:
            DataError: One line, for what is no JSON, of another program, from a later version, or incomplete.
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
            corpora = tuple(
                CorpusState(
                    name=_typed(item, "name", str),
                    fingerprint=_typed(item, "fingerprint", str),
                    tokenizer=None if item["tokenizer"] is None else _typed(item, "tokenizer", str),
                    part=_typed(item, "part", int),
                    epoch=_typed(item, "epoch", int),
                    cursor=_typed(item, "cursor", int),
                )
                for item in _typed(body, "corpora", list)
            )
            state = cls(
                consumed_samples=_typed(body, "consumed_samples", int),
                plan=_typed(body, "plan", dict),
                corpora=corpora,
                fingerprint=_typed(body, "fingerprint", str),
            )
        except (KeyError, TypeError) as error:
            raise DataError(f"{where}: incomplete data state ({error}); take the state of another checkpoint") from None
        if state.consumed_samples < 0 or plan_fingerprint(state.plan, state.corpora) != state.fingerprint:
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


def plan_fingerprint(plan: dict[str, Any], corpora: tuple[CorpusState, ...]) -> str:
    """64 hex digits over all that determines the samples, and nothing that does not (paths, batch sizes, progress)."""
    identity = [plan, [[corpus.name, corpus.fingerprint, corpus.part] for corpus in corpora]]
    return hashlib.sha256(json.dumps(identity, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _typed(mapping: Any, name: str, *kinds: type) -> Any:
    value = mapping[name]
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}")
    return value
