"""What is known about a pair that was made of others, or is a part of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from mindformers_megatron._version import __version__
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.metadata import Metadata, SourceInfo, TokenizerInfo, check_metadata, read_metadata
from mindformers_megatron.format.writer import WrittenPair


@dataclass(frozen=True, slots=True)
class PartMetadata:
    """Metadata and whose it is.

    Attributes:
        prefix: of the pair.
        metadata: of the pair.
    """

    prefix: str
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class MergedMetadata:
    """What several pairs have in common.

    Attributes:
        common: metadata in which the counts and hashes are not yet those of the whole.
        warnings: in which options the parts differ, one line each.
    """

    common: Metadata
    warnings: tuple[str, ...]

    def of(self, written: WrittenPair) -> Metadata:
        """The metadata of the whole."""
        return metadata_of(written, self.common)


def read_part_metadata(prefix: str, *, multimodal: bool = False) -> PartMetadata | None:
    """Metadata of a pair, checked against it; None if it has none.

    Raises:
        DataError: it cannot be read, or is that of another pair.
    """
    metadata = read_metadata(prefix)
    if metadata is None:
        return None
    check_metadata(metadata, read_index(prefix, multimodal=multimodal))
    return PartMetadata(prefix, metadata)


def metadata_of(written: WrittenPair, known: Metadata, *, dtype: str | None = None) -> Metadata:
    """Metadata with the counts and hashes of what was written; both hashes must have been taken.

    Args:
        written: what was written.
        known: what else is known about it.
        dtype: type of the tokens; None: as it was.
    """
    return replace(
        known,
        dtype=dtype or known.dtype,
        documents=written.num_documents,
        sequences=written.num_sequences,
        tokens=written.num_tokens,
        bin_sha256=str(written.bin_sha256),
        idx_sha256=str(written.idx_sha256),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        program_version=__version__,
    )


def merge_metadata(parts: Sequence[PartMetadata]) -> MergedMetadata:
    """Says what holds for all parts together.

    Sources are listed once, in the order of the parts. What the parts do not agree on (an option, the sequence length)
    is left out.

    Args:
        parts: at least one.

    Raises:
        DataError: two parts were made with different tokenizers, or end documents differently.
    """
    first = parts[0]
    for part in parts[1:]:
        _check_same_tokenizer(first, part)
    options, warnings = _common_options(parts)
    metadatas = [part.metadata for part in parts]
    lengths = {metadata.seq_length for metadata in metadatas}
    sources: dict[SourceInfo, None] = {}
    for metadata in metadatas:
        sources.update(dict.fromkeys(metadata.sources))
    common = replace(
        first.metadata,
        tokenizer=_common_tokenizer([metadata.tokenizer for metadata in metadatas]),
        seq_length=lengths.pop() if len(lengths) == 1 else None,
        sources=tuple(sources),
        options=options,
    )
    return MergedMetadata(common, tuple(warnings))


def _check_same_tokenizer(first: PartMetadata, other: PartMetadata) -> None:
    one, two = first.metadata, other.metadata
    if one.tokenizer_fingerprint == two.tokenizer_fingerprint:
        return
    values = {
        "kind": (one.tokenizer.kind, two.tokenizer.kind),
        "vocabulary size": (one.vocab_size, two.vocab_size),
        "EOD id": (one.eod_id, two.eod_id),
    }
    differing = [f"{name} {mine} and {theirs}" for name, (mine, theirs) in values.items() if mine != theirs]
    raise DataError(
        f"{first.prefix} and {other.prefix}: ids mean different things: tokenizer {one.tokenizer.name} (fingerprint "
        f"{one.tokenizer_fingerprint[:16]}) and {two.tokenizer.name} ({two.tokenizer_fingerprint[:16]}), with "
        f"{', '.join(differing) or 'different files'}; make them again with one tokenizer"
    )


def _common_tokenizer(tokenizers: Sequence[TokenizerInfo]) -> TokenizerInfo:
    # Other versions and engines give the same ids, or something is wrong; all of them are named, to be found then.
    def named(name: str) -> str:
        return " + ".join(dict.fromkeys(str(getattr(tokenizer, name)) for tokenizer in tokenizers))

    return replace(
        tokenizers[0],
        library_version=named("library_version"),
        engine=named("engine"),
        engine_version=named("engine_version"),
        engine_verdict=_common_verdict(tokenizers),
    )


def _common_verdict(tokenizers: Sequence[TokenizerInfo]) -> str | None:
    verdicts = [tokenizer.engine_verdict for tokenizer in tokenizers]
    said = [verdict for verdict in verdicts if verdict is not None]
    # Of a whole nothing can be said of which a part says nothing.
    return " + ".join(dict.fromkeys(filter(None, said))) if len(said) == len(verdicts) else None


def _common_options(parts: Sequence[PartMetadata]) -> tuple[Mapping[str, Any], list[str]]:
    first = parts[0]
    options, warnings = dict(first.metadata.options), []
    names = dict.fromkeys(name for part in parts for name in part.metadata.options)
    for name in names:
        for part in parts[1:]:
            mine, theirs = (p.metadata.options.get(name) for p in (first, part))
            if mine != theirs:
                options.pop(name, None)
                warnings.append(
                    f"the parts differ in {name}: {mine!r} in {first.prefix}, {theirs!r} in {part.prefix}; the "
                    "metadata leaves it out"
                )
                break
    return options, warnings
