"""Which engine encodes a corpus: the fastest that loads its tokenizer and is found to give the same ids."""

import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.engines import Engine, tiktoken
from mindformers_megatron.tokenization.engines import gigatoken as giga
from mindformers_megatron.tokenization.engines.adversarial import adversarial_texts
from mindformers_megatron.tokenization.engines.guard import EngineMismatchError, GuardedEngine, compare
from mindformers_megatron.tokenization.engines.unassigned import has_unassigned
from mindformers_megatron.tokenization.tokenizer import Tokenizer

EngineName = Literal["auto", "hf", "gigatoken", "sentencepiece", "tiktoken"]
ENGINES: tuple[str, ...] = get_args(EngineName)
OnMismatch = Literal["stop", "hf"]

_FASTEST_FIRST = ("gigatoken", "tiktoken")
_ADVERSARIAL_TEXTS = 250
# The reference encodes them all; this much takes it a tenth of a second.
_SAMPLE_CHARACTERS = 1 << 17

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine of a run.

    Attributes:
        engine: what encodes.
        verdict: what the self-check found, in words; empty where the reference itself encodes.
    """

    engine: Engine
    verdict: str = ""


def choose_engine(
    tokenizer: Tokenizer,
    name: EngineName,
    sample: Sequence[str],
    *,
    on_mismatch: OnMismatch = "stop",
    by_threads: bool = True,
) -> Choice:
    """Chooses the engine for a corpus.

    Args:
        tokenizer: the tokenizer.
        name: the engine asked for.
        sample: the first texts of the corpus.
        on_mismatch: what is done where an engine that was asked for by name gives other ids: stop, or take the
            reference. ``auto`` takes the next engine.
        by_threads: several threads will encode at once; False: one, in this process or in forks of it.

    Raises:
        ConfigError: the engine asked for is not installed, or cannot do this tokenizer.
        EngineMismatchError: it gives other ids.
    """
    reference = tokenizer.engine
    if name == reference.name or (name == "hf" and reference.name == "null"):
        return Choice(reference)
    if name != "auto":
        if name not in _FASTEST_FIRST:
            raise ConfigError(
                f"{tokenizer.name}: {name} cannot encode by a {tokenizer.kind}; give auto or {reference.name}"
            )
        try:
            return _checked(tokenizer, name, sample, by_threads)
        except EngineMismatchError as error:
            if on_mismatch == "stop":
                raise
            _log.warning("%s; taking %s", error, reference.name)
            return Choice(reference, f"{name} was refused: {error}")
    refused = []
    for candidate in _FASTEST_FIRST:
        if candidate == reference.name or importlib.util.find_spec(candidate) is None:
            continue
        try:
            return _checked(tokenizer, candidate, sample, by_threads)
        except (ConfigError, EngineMismatchError) as error:
            _log.info("%s", error)
            refused.append(f"{candidate} was refused: {error}")
    return Choice(reference, "; ".join(refused))


def load_engine(tokenizer: Tokenizer, name: str, *, by_threads: bool = True) -> GuardedEngine:
    """Makes a fast engine, which has not been checked; see ``choose_engine``."""
    return GuardedEngine(_load(tokenizer, name, by_threads), tokenizer.engine)


def _checked(tokenizer: Tokenizer, name: str, sample: Sequence[str], by_threads: bool) -> Choice:
    engine, reference = load_engine(tokenizer, name, by_threads=by_threads), tokenizer.engine
    texts = adversarial_texts(_ADVERSARIAL_TEXTS, list(tokenizer.special_tokens.values()))
    crafted = len(texts)
    characters = 0
    for text in sample:
        texts.append(text[: _SAMPLE_CHARACTERS - characters])
        characters += len(texts[-1])
        if characters >= _SAMPLE_CHARACTERS:
            break
    checked = [text for text, unassigned in zip(texts, has_unassigned(texts), strict=True) if not unassigned]
    compare(checked, engine.fast.encode(checked), engine.fast, reference)
    verdict = (
        f"ids equal to those of {reference.name} {reference.version} on {crafted} adversarial texts and on the first "
        f"{len(texts) - crafted} of the corpus"
    )
    return Choice(engine, verdict)


def _load(tokenizer: Tokenizer, name: str, by_threads: bool) -> Engine:
    if importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"engine {name} is not installed; pip install 'mindformers-megatron[fast]', or give --engine hf"
        )
    # pyo3's panics are no Exception.
    try:
        return _loaded(tokenizer, name, by_threads)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(
            f"{tokenizer.name}: {name} cannot load this tokenizer: {reason}; give --engine auto"
        ) from None


def _loaded(tokenizer: Tokenizer, name: str, by_threads: bool) -> Engine:
    if tokenizer.sentencepiece_file is not None and name == "gigatoken":
        return giga.load_sentencepiece(tokenizer.sentencepiece_file, by_threads=by_threads)
    data = tokenizer.json()
    if data is None:
        raise ValueError(f"it is a {tokenizer.kind}")
    before, after = tokenizer.added_around()
    options: dict[str, Any] = {
        "split_special_tokens": tokenizer.splits_special_tokens, "before": before, "after": after,
    }  # fmt: skip
    if name == "gigatoken":
        return giga.load_json(data, **options, by_threads=by_threads)
    return tiktoken.load_json(data, **options)
