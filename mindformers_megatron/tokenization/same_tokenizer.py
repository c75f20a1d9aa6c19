"""Whether a tokenizer is the one that made a pair."""

from pathlib import Path

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.metadata import Metadata
from mindformers_megatron.format.paths import metadata_path
from mindformers_megatron.tokenization.tokenizer import Tokenizer


def require_same(tokenizer: Tokenizer, path: Path, prefix: str, metadata: Metadata) -> None:
    """Compares the files of a tokenizer with those that the metadata of a pair names.

    Args:
        tokenizer: as it was opened.
        path: from where.
        prefix: of the pair.
        metadata: of the pair.

    Raises:
        ConfigError: their content differs.
    """
    if sorted(tokenizer.files.values()) != sorted(metadata.tokenizer.files.values()):
        raise ConfigError(
            f"{path}: is not the tokenizer of {prefix}: {metadata_path(prefix)} names {metadata.tokenizer.name}, whose "
            "files have other hashes"
        )
