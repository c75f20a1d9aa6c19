"""What can be said of a pair that another program tokenized, by whoever knows with which tokenizer."""

from datetime import datetime, timezone

from mindformers_megatron._version import __version__
from mindformers_megatron.format.convert import ConvertedPair
from mindformers_megatron.format.metadata import Metadata, TokenizerInfo
from mindformers_megatron.tokenization.tokenizer import Tokenizer


def converted_metadata(converted: ConvertedPair, tokenizer: Tokenizer, seq_length: int | None) -> Metadata:
    """Describes a converted pair.

    Whether documents end with EOD is seen from the documents.

    Args:
        converted: the pair.
        tokenizer: what made its tokens.
        seq_length: the length it was made for; None if for any.
    """
    written = converted.written
    return Metadata(
        tokenizer=TokenizerInfo(
            name=tokenizer.name,
            kind=tokenizer.kind,
            files=tokenizer.files,
            library=tokenizer.library,
            library_version=tokenizer.library_version,
            engine="unknown",
            engine_version="",
        ),
        vocab_size=tokenizer.vocab_size,
        eod_id=tokenizer.eod_id,
        dtype=converted.dtype,
        documents=written.num_documents,
        sequences=written.num_sequences,
        tokens=written.num_tokens,
        seq_length=seq_length,
        bin_sha256=str(written.bin_sha256),
        idx_sha256=str(written.idx_sha256),
        options={
            "converted_from": converted.layout,
            "append_eod": tokenizer.eod_id is not None and converted.common_end == tokenizer.eod_id,
        },
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        program_version=__version__,
    )
