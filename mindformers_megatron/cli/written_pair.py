"""What commands say of a pair that they have written."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindformers_megatron.format.writer import WrittenPair


def summary_of(written: "WrittenPair") -> dict[str, Any]:
    """Its counts and checksums, for ``--json``."""
    return {
        "documents": written.num_documents,
        "sequences": written.num_sequences,
        "tokens": written.num_tokens,
        "bin_sha256": written.bin_sha256,
        "idx_sha256": written.idx_sha256,
    }


def counts_of(written: "WrittenPair") -> str:
    """Its counts, for people."""
    return f"{written.num_documents:,} documents, {written.num_tokens:,} tokens"
