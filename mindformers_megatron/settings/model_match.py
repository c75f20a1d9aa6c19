"""Whether the data of a run fit its model: compared at the start, because a training would not notice.

Ids beyond a vocabulary read past the end of the embedding, another tokenizer's ids are noise, and another end of
document moves every boundary; on most devices none of these stops a training.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import ConfigError, DataError, unknown_option
from mindformers_megatron.format.metadata import Metadata, read_metadata
from mindformers_megatron.sampling.corpora import Corpus
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.settings.model_settings import ModelSettings

logger = logging.getLogger(__name__)

_BLOCKS, _BLOCK_TOKENS = 16, 4096

Message = str
Read = tuple[Corpus, Metadata | None]


def check_model(plan: SamplePlan, config: Mapping[str, Any], allow: Collection[str] = ()) -> None:
    """Compares the corpora of a plan with the model of a run.

    Args:
        plan: The plan of the run's samples.
        config: MindFormers' YAML.
        allow: Checks, by the names in ``CHECKS``, whose mismatches are logged as warnings instead.

    Raises:
        ConfigError: One line with both values and the name of the check, for the first mismatch that is not allowed.
    """
    model = ModelSettings.of(config)
    corpora = [(corpus, read_metadata(corpus.dataset.prefix)) for corpus in plan.corpora.values()]
    for name, check in _CHECKS.items():
        for message in check(plan, model, corpora):
            if name not in allow:
                raise ConfigError(f"{message}; mend the one that is wrong, or allow it: allow: [{name}]")
            logger.warning("allowed (%s): %s", name, message)


def check_names(allow: Collection[str]) -> None:
    """Raises ConfigError for a name that is none of ``CHECKS``."""
    for name in allow:
        if name not in CHECKS:
            raise ConfigError(f"allow: {unknown_option(name, CHECKS)}")


def _vocab_size(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    known = model.vocab_size
    if known is None:
        return
    for corpus, metadata in corpora:
        if metadata is not None and metadata.vocab_size is not None and metadata.vocab_size > known.value:
            yield f"{corpus.name} was made with a vocabulary of {metadata.vocab_size}, {_is(known)}"
        else:
            largest = _largest_id(corpus)
            if largest >= known.value:
                yield f"{corpus.name} holds the id {largest}, {_is(known)}"
    for special in (*model.eod, model.bos_token_id, model.pad_token_id):
        # MindFormers' configs say -1 for "none".
        if special is not None and special.value >= known.value:
            yield f"{special.place} is {special.value}, {_is(known)}"


def _eod_id(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    if not model.eod:
        return
    ids = [setting.value for setting in model.eod]
    found = [("eod_id of the data loader", plan.spec.eod_id)]
    found += [(f"the end of document in {corpus.name}", corpus.eod_id) for corpus, _ in corpora]
    for place, value in found:
        if value is not None and value not in ids:
            yield f"{place} is {value}, {model.eod[0].place} is {ids[0] if len(ids) == 1 else ids}"


def _pad_id(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    # A stream has no padding; the other orders have.
    pad = model.pad_token_id
    if plan.spec.order != "stream" and pad is not None and pad.value >= 0 and pad.value != plan.spec.pad_id:
        yield f"pad_id of the data loader is {plan.spec.pad_id}, {_is(pad)}"


def _bos_id(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    bos = model.bos_token_id
    if bos is None or bos.value < 0:
        return
    for corpus, metadata in corpora:
        if metadata is None or not metadata.options.get("add_special_tokens"):
            continue
        first = int(corpus.dataset.tokens(corpus.begin, 1)[0])
        if first != bos.value:
            yield f"{corpus.name} was made with special tokens and begins with {first}, {_is(bos)}"


def _seq_length(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    asked = model.seq_length
    if asked is not None and asked.value != plan.seq_length:
        yield f"seq_length of the data loader is {plan.seq_length}, {_is(asked)}"
    for corpus, metadata in corpora:
        if metadata is not None and metadata.seq_length not in (None, plan.seq_length):
            made = metadata.seq_length
            yield f"{corpus.name} was made for seq_length {made}, that of the data loader is {plan.seq_length}"


def _positions(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    limit = model.max_position_embeddings
    if limit is not None and plan.seq_length > limit.value:
        yield f"seq_length of the data loader is {plan.seq_length}, {_is(limit)}"


def _tokenizer(plan: SamplePlan, model: ModelSettings, corpora: list[Read]) -> Iterator[Message]:
    made = [(corpus, metadata.tokenizer) for corpus, metadata in corpora if metadata is not None]
    if model.tokenizer is None or not made:
        return
    opened = _open_tokenizer(model.tokenizer)
    if opened is None:
        return
    name, kind, files = opened
    for corpus, tokenizer in made:
        if not tokenizer.files:
            continue
        if kind != tokenizer.kind:
            # The same ids may stand in files of several forms, which cannot be compared.
            logger.warning(
                "%s was made by a %s (%s), the run names a %s (%s): cannot tell whether they are the same",
                *(corpus.name, tokenizer.kind, tokenizer.name, kind, name),
            )
        elif sorted(files.values()) != sorted(tokenizer.files.values()):
            yield (
                f"{corpus.name} was made by the tokenizer {tokenizer.name} ({_hashes(tokenizer.files)}), the run names "
                f"{name} ({_hashes(files)})"
            )


def _is(setting: Any) -> str:
    return f"{setting.place} is {setting.value}"


def _hashes(files: Mapping[str, str]) -> str:
    return ", ".join(f"{name} sha256 {digest[:12]}" for name, digest in files.items())


def _largest_id(corpus: Corpus) -> int:
    # Blocks of it: a look that costs the same for any corpus, and finds what is wrong throughout.
    last = max(corpus.num_tokens - _BLOCK_TOKENS, 0)
    starts = sorted({last * block // (_BLOCKS - 1) for block in range(_BLOCKS)})
    count = min(_BLOCK_TOKENS, corpus.num_tokens)
    return max(int(np.max(corpus.dataset.tokens(corpus.begin + start, count))) for start in starts)


def _open_tokenizer(paths: Mapping[str, Path]) -> tuple[str, str, Mapping[str, str]] | None:
    from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

    if "merge_file" in paths:
        spec = TokenizerSpec(vocab_file=paths["vocab_file"], merge_file=paths["merge_file"])
    else:
        spec = TokenizerSpec(path=next(iter(paths.values())))
    try:
        opened = open_tokenizer(spec)
    except (ConfigError, DataError) as error:
        logger.warning("the tokenizer that the run names is not compared with the data's: %s", error)
        return None
    return opened.name, opened.kind, opened.files


_CHECKS: Mapping[str, Callable[[SamplePlan, ModelSettings, list[Read]], Iterator[Message]]] = {
    "vocab_size": _vocab_size,
    "eod_id": _eod_id,
    "pad_id": _pad_id,
    "bos_id": _bos_id,
    "seq_length": _seq_length,
    "max_position_embeddings": _positions,
    "tokenizer": _tokenizer,
}
CHECKS = tuple(_CHECKS)
