"""The stage ``tokenize``, on all shards: what is kept of each source and part becomes a pair."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from typing import Any

from mindformers_megatron.corpus.jobs import Job
from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.job_runner import JobRunner
from mindformers_megatron.corpus.prepare.outcome import Corpus, PartShard
from mindformers_megatron.corpus.prepare.raw import RawPart, raw_files
from mindformers_megatron.corpus.prepare.stages import TOKENIZE, Stage
from mindformers_megatron.corpus.prepare.tokens import TokenTask, TokenWork, join, train_tokenizer
from mindformers_megatron.corpus.recipe import Recipe
from mindformers_megatron.corpus.splits import REST
from mindformers_megatron.format.fingerprint import fingerprint_of
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path, metadata_path
from mindformers_megatron.tokenization.tokenizer import open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec


def pack(
    recipe: Recipe,
    folder: OutputFolder,
    jobs: JobRunner,
    divided: Sequence[PartShard],
    parts: Sequence[RawPart],
    stages: Sequence[Stage],
) -> list[Corpus]:
    """Tokenizes what is kept, and joins it by source and part.

    Args:
        recipe: the recipe; it has a tokenizer.
        folder: where things are.
        jobs: does them.
        divided: what is kept.
        parts: where it was read from.
        stages: what was done with it.

    Raises:
        ConfigError: the tokenizer cannot be used as asked.
        DataError: it is missing or damaged.
    """
    assert recipe.tokenizer is not None
    spec = recipe.tokenizer.spec(folder.tokenizer)
    if recipe.tokenizer.train is not None:
        _train(folder, jobs, [one for one in divided if one.part == REST], recipe.tokenizer.train)
    settings = {**_settings(spec), "append_eod": recipe.packing.append_eod}
    listed = []
    for one in divided:
        key = fingerprint_of({"shard": one.shard.key, "part": one.part, **settings})
        shard: Shard = replace(one.shard, name=f"{one.shard.name}.{one.part}", key=key)
        task = TokenTask(shard, str(folder.tokens() / shard.name))
        outputs = (bin_path(task.pair), idx_path(task.pair), docs_path(task.pair), metadata_path(task.pair))
        listed.append(Job(shard.name, key, task, one.shard.bytes, outputs))
    for _ in jobs.run(TOKENIZE, "tokenizing", TokenWork(spec, recipe.packing), listed, folder.tokens()):
        pass
    groups: dict[tuple[str, str], list[Job[TokenTask]]] = {}
    for one, job in zip(divided, listed, strict=True):
        groups.setdefault((one.shard.source, one.part), []).append(job)
    rules = fingerprint_of({"stages": [stage.settings() for stage in stages]})
    corpora = []
    for source, part in product([source.name for source in recipe.sources], recipe.splits.parts):
        of_pair = groups.get((source, part))
        if of_pair is None:
            continue
        prefix = folder.corpora / f"{source}_{part}_text_document"
        key = fingerprint_of({"pairs": [job.key for job in of_pair], "seq_length": recipe.packing.seq_length})
        outputs = (bin_path(str(prefix)), idx_path(str(prefix)), docs_path(str(prefix)), metadata_path(str(prefix)))
        work = partial(join, [job.task.pair for job in of_pair], prefix, raw=raw_files(parts, source), recipe=rules)
        written = jobs.once(TOKENIZE, f"joining {prefix.name}", f"{source}_{part}", key, folder.joined(), work, outputs)
        corpora.append(Corpus(source=source, part=part, prefix=prefix, written=written))
    return corpora


def _train(folder: OutputFolder, jobs: JobRunner, kept: Sequence[PartShard], vocab_size: int) -> None:
    key = fingerprint_of({"shards": [one.shard.key for one in kept], "vocab_size": vocab_size})

    def work() -> dict[str, Any]:
        train_tokenizer([one.shard for one in kept], sum(one.shard.bytes for one in kept), vocab_size, folder.tokenizer)
        return {}

    outputs = (folder.tokenizer / "tokenizer.json",)
    jobs.once(TOKENIZE, "training the tokenizer", "tokenizer", key, folder.joined(), work, outputs)


def _settings(spec: TokenizerSpec) -> dict[str, Any]:
    """What decides which ids a text gets."""
    tokenizer = open_tokenizer(spec)
    # Where its files are does not matter; their content does.
    options = {name: value for name, value in asdict(spec).items() if name not in ("path", "vocab_file", "merge_file")}
    return {"files": dict(tokenizer.files), "kind": tokenizer.kind, "options": options}
