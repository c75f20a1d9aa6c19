"""The corpora of a blend: opened, named, and checked."""

import resource
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.identity import content_identity
from mindformers_megatron.format.index import token_start
from mindformers_megatron.format.metadata import check_metadata, read_metadata
from mindformers_megatron.format.paths import prefix_of
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.sampling.splits import Shares, Split, parse_split, split_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """One ``.bin/.idx`` pair of a blend, or the part of it that a split gives.

    Attributes:
        name: Its name in the run; its stream is keyed by it.
        dataset: The opened pair.
        documents: Its documents, as (begin, end) in the index.
        begin: First token, in the ``.bin``.
        num_tokens: Tokens from there on.
        fingerprint: Identity of the files' content (32 hex digits).
        tokenizer: Fingerprint of the tokenizer, vocabulary and EOD that made the tokens; None where no metadata tells.
        eod_id: The EOD token that metadata names; None where none does.
    """

    name: str
    dataset: IndexedDataset
    documents: tuple[int, int]
    begin: int
    num_tokens: int
    fingerprint: str
    tokenizer: str | None
    eod_id: int | None


def corpus_names(prefixes: Sequence[str], names: Sequence[str] | None = None) -> list[str]:
    """Names the corpora of a blend.

    Args:
        prefixes: Their prefixes.
        names: Names of the user's; None: each corpus goes by the last part of its prefix, with as many folders before
            it as it takes to tell it from the others.

    Raises:
        ConfigError: For names that are not one each, or not distinct, and for a corpus listed twice.
    """
    resolved = [Path(prefix).absolute() for prefix in prefixes]
    twice = next((path for path, count in Counter(resolved).items() if count > 1), None)
    if twice is not None:
        raise ConfigError(f"dataset_dir lists {twice} twice; give it once, with the sum of the weights")
    if names is not None:
        if len(names) != len(prefixes) or len(set(names)) < len(names):
            raise ConfigError(
                f"dataset_names {list(names)!r} must be {len(prefixes)} distinct names, one for each corpus"
            )
        return list(names)
    chosen = ["" for _ in resolved]
    depth = 1
    while any(not name for name in chosen):
        tails = ["/".join(path.parts[-depth:]) for path in resolved]
        seen = Counter(tails)
        for place, tail in enumerate(tails):
            if not chosen[place] and seen[tail] == 1:
                chosen[place] = tail
        depth += 1
    return chosen


def open_corpus(
    prefix: str,
    name: str,
    split: Shares | None = None,
    part: Split = "train",
    stretch: tuple[float, float] = (0, 1),
) -> Corpus:
    """Opens a pair, or a part of it by documents, and checks it in O(1).

    Args:
        prefix: Its prefix.
        name: Its name in the run.
        split: How its documents are split; None: not at all.
        part: Which part of the split to open.
        stretch: Which stretch of that to open, as (begin, end) of its tokens from 0 to 1; it begins and ends with the
            first document behind either place, so that stretches side by side hold each document once.

    Raises:
        ConfigError: For a split that leaves no document for the part.
        DataError: One line, for a missing or damaged pair, metadata that contradicts it, tokens that are no integers,
        or no
            tokens at all.
    """
    dataset = IndexedDataset(prefix)
    metadata = read_metadata(dataset.prefix)
    if metadata is not None:
        check_metadata(metadata, dataset.index)
    if dataset.dtype.kind not in "iu":
        raise DataError(
            f"{dataset.prefix}.idx: tokens are {dataset.dtype}, expected an integer type; this is not text data"
        )
    if not dataset.num_tokens:
        raise DataError(f"{dataset.prefix}.bin holds no token; a blend cannot draw samples from it")
    documents = (0, dataset.num_documents)
    if split is not None:
        documents = split_range(split, part, dataset.num_documents, corpus=name)
    if stretch != (0, 1):
        documents = _cut(dataset, documents, stretch)
        if documents[0] == documents[1]:
            raise DataError(
                f"{dataset.prefix}: no document begins in the stretch from {stretch[0]:.6g} to {stretch[1]:.6g} of "
                f"{name}; let it be longer (with shard_files: fewer groups)"
            )
    begin, end = (token_start(dataset.index, document) for document in documents)
    if begin == end:
        raise DataError(f"{dataset.prefix}: the {part} part of the split, documents {documents}, holds no token")
    return Corpus(
        name=name,
        dataset=dataset,
        documents=documents,
        begin=begin,
        num_tokens=end - begin,
        fingerprint=content_identity(dataset)[:32],
        tokenizer=metadata.tokenizer_fingerprint[:32] if metadata else None,
        eod_id=metadata.eod_id if metadata else None,
    )


def open_corpora(
    paths: Sequence[str],
    names: Sequence[str] | None = None,
    *,
    split: str | Sequence[float] | None = None,
    part: Split = "train",
    stretches: Sequence[tuple[float, float]] | None = None,
) -> tuple[Corpus, ...]:
    """Opens all corpora of a blend, in order; see ``corpus_names`` and ``open_corpus``.

    Raises:
        ConfigError: Also for corpora that different tokenizers made: one model cannot read both.
    """
    if not paths:
        raise ConfigError("dataset_dir is empty; expected the .bin paths, or prefixes, of one corpus or more")
    prefixes = [prefix_of(path) for path in paths]
    _make_room(len(prefixes))
    shares = None if split is None else parse_split(split)
    named = zip(prefixes, corpus_names(prefixes, names), stretches or [(0, 1)] * len(prefixes), strict=True)
    corpora = tuple(open_corpus(prefix, name, shares, part, stretch) for prefix, name, stretch in named)
    known = [corpus for corpus in corpora if corpus.tokenizer is not None]
    for corpus in known[1:]:
        if corpus.tokenizer != known[0].tokenizer:
            raise ConfigError(
                f"{known[0].name} and {corpus.name} were made by different tokenizers (in their metadata.json, "
                f"fingerprints {known[0].tokenizer} and {corpus.tokenizer}): tokenize one of them anew"
            )
    return corpora


def _make_room(corpora: int) -> None:
    """Raises the limit of open files, where thousands of corpora need more: a mapped pair holds two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * corpora + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ConfigError(
                f"{corpora} corpora need {needed} open files, the system allows {hard}; raise the hard limit "
                "(ulimit -Hn), or merge corpora of one weight with tools/merge_datasets.py"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _cut(dataset: IndexedDataset, documents: tuple[int, int], stretch: tuple[float, float]) -> tuple[int, int]:
    begin, end = (token_start(dataset.index, document) for document in documents)

    def document_at(share: float) -> int:
        if share == 1:
            return documents[1]
        token = begin + int(share * (end - begin))
        place = bisect_left(range(*documents), token, key=lambda document: token_start(dataset.index, document))
        return documents[0] + place

    return document_at(stretch[0]), document_at(stretch[1])
