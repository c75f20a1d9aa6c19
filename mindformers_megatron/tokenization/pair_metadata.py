"""The metadata of a pair that has just been written, from what is known of its tokenizer."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from mindformers_megatron._version import __version__
from mindformers_megatron.format.metadata import Metadata, SourceInfo, TokenizerInfo
from mindformers_megatron.format.writer import WrittenPair
from mindformers_megatron.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from mindformers_megatron.format.convert import ConvertedPair


def pair_metadata(
    written: WrittenPair,
    tokenizer: Tokenizer,
    *,
    dtype: str,
    engine: str,
    engine_version: str,
    engine_verdict: str | None = None,
    seq_length: int | None,
    sources: Sequence[SourceInfo] = (),
    options: Mapping[str, Any],
) -> Metadata:
    """Describes a pair. What is not of the pair or of its tokenizer is taken as it is given; see ``Metadata``."""
    return Metadata(
        tokenizer=TokenizerInfo(
            name=tokenizer.name,
            kind=tokenizer.kind,
            files=tokenizer.files,
            library=tokenizer.library,
            library_version=tokenizer.library_version,
            engine=engine,
            engine_version=engine_version,
            engine_verdict=engine_verdict,
        ),
        vocab_size=tokenizer.vocab_size,
        eod_id=tokenizer.eod_id,
        dtype=dtype,
        documents=written.num_documents,
        sequences=written.num_sequences,
        tokens=written.num_tokens,
        seq_length=seq_length,
        sources=tuple(sources),
        bin_sha256=str(written.bin_sha256),
        idx_sha256=str(written.idx_sha256),
        options=options,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        program_version=__version__,
    )


def converted_metadata(converted: "ConvertedPair", tokenizer: Tokenizer, seq_length: int | None) -> Metadata:
    """Describes a pair that another program tokenized.

    Whether documents end with EOD is seen from the documents.

    Args:
        converted: the pair.
        tokenizer: what made its tokens, as whoever converted it says.
        seq_length: the length it was made for; None if for any.
    """
    ends_with_eod = tokenizer.eod_id is not None and converted.common_end == tokenizer.eod_id
    return pair_metadata(
        converted.written,
        tokenizer,
        dtype=converted.dtype,
        engine="unknown",
        engine_version="",
        seq_length=seq_length,
        options={"converted_from": converted.layout, "append_eod": ends_with_eod},
    )
