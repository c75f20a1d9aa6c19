"""The stage ``tokenize``: the shards of each source and part become pairs, and these one pair."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.recipe import PackingOptions
from mindformers_megatron.corpus.shards import read_columns
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.merge import merge_pairs
from mindformers_megatron.format.metadata import SourceInfo, read_metadata, write_metadata
from mindformers_megatron.format.provenance import DocsWriter, docs_schema
from mindformers_megatron.tokenization.preprocess import PreprocessSpec, preprocess
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

# More text than this teaches a tokenizer little that is new, and takes memory.
_TRAINED_ON_BYTES = 256 << 20
END_OF_TEXT = "<|endoftext|>"


@dataclass(frozen=True, slots=True)
class TokenTask:
    """A shard to be tokenized.

    Attributes:
        shard: the shard; it has documents.
        prefix: of its pair, without ``_text_document``.
    """

    shard: Shard
    prefix: str

    @property
    def pair(self) -> str:
        """The prefix of its pair."""
        return f"{self.prefix}_text_document"


@dataclass(frozen=True, slots=True)
class TokenWork:
    """Tokenizes shards.

    Attributes:
        tokenizer: what defines the ids.
        packing: how texts become pairs.
    """

    tokenizer: TokenizerSpec
    packing: PackingOptions

    def __call__(self, task: TokenTask) -> dict[str, Any]:
        """Does it; returns counts. Each document's provenance is that of its raw record."""
        spec = PreprocessSpec(
            inputs=[task.shard.path],
            output_prefix=task.prefix,
            tokenizer=self.tokenizer,
            append_eod=self.packing.append_eod,
            engine=self.packing.engine,
            seq_length=self.packing.seq_length,
            workers=1,
            in_processes=False,
        )
        report = preprocess(spec)
        pair = report.pairs[task.pair]
        if pair.num_documents != task.shard.documents:
            raise DataError(
                f"{task.shard.path}: {task.shard.documents:,} documents became {pair.num_documents:,}; run again with "
                "--from tokenize, and report it if it stays so"
            )
        with DocsWriter(task.pair) as docs:
            for table in read_columns(task.shard.path, docs_schema().names):
                docs.add_table(table)
        return {
            "tokens": pair.num_tokens,
            "sequences": pair.num_sequences,
            "special_tokens_in_text": report.counts.special_tokens,
        }


def join(pairs: Sequence[str], prefix: Path, *, raw: Sequence[SourceInfo], recipe: str) -> dict[str, Any]:
    """Joins the pairs of shards, and says where the whole comes from.

    Args:
        pairs: the pairs of a source and part, in the order of their documents.
        prefix: of the pair that they become.
        raw: the files that the documents were read from.
        recipe: fingerprint of all that was done with them.

    Returns:
        Counts and hashes, and how many documents have how many tokens (by bit length).
    """
    prefix.parent.mkdir(parents=True, exist_ok=True)
    merged = merge_pairs(pairs, prefix)
    metadata = read_metadata(prefix)
    assert metadata is not None
    write_metadata(prefix, replace(metadata, sources=tuple(raw), options={**metadata.options, "recipe": recipe}))
    written = merged.written
    return {
        "documents": written.num_documents,
        "sequences": written.num_sequences,
        "tokens": written.num_tokens,
        "dtype": merged.dtype,
        "bin_sha256": written.bin_sha256,
        "idx_sha256": written.idx_sha256,
        "token_lengths": _token_lengths(str(prefix)),
        "tokenizer": {
            "kind": metadata.tokenizer.kind,
            "name": metadata.tokenizer.name,
            "fingerprint": metadata.tokenizer_fingerprint,
            "engine": metadata.tokenizer.engine,
            "vocab_size": metadata.vocab_size,
            "eod_id": metadata.eod_id,
        },
    }


def train_tokenizer(shards: Sequence[Shard], size: int, vocab_size: int, folder: Path) -> None:
    """Trains a byte-level BPE on documents of shards and writes it.

    Of more than 256 MiB of text some documents are taken, by a hash of what they are: the same, however they lie in
    shards.

    Args:
        shards: where the documents are.
        size: bytes of their texts.
        vocab_size: ids, with the bytes and one token that ends documents.
        folder: to be; what is there is replaced.
    """
    from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions, train_byte_bpe
    from mindformers_megatron.tokenization.training.folder import Destination
    from mindformers_megatron.tokenization.training.special_tokens import SpecialTokens

    one_in = max(-(-size // _TRAINED_ON_BYTES), 1)
    options = ByteBpeOptions(
        vocab_size=vocab_size, special=SpecialTokens(tokens={"eod": END_OF_TEXT}), hard_vocab_limit=False
    )
    trained = train_byte_bpe(_texts(shards, one_in), options)
    shutil.rmtree(folder, ignore_errors=True)
    Destination(folder).write(trained, {"vocab_size": vocab_size, "documents": f"one in {one_in}"})


def _texts(shards: Iterable[Shard], one_in: int) -> Iterator[str]:
    for text in chain.from_iterable(_column(shard) for shard in shards):
        if one_in == 1 or xxhash.xxh3_64_intdigest(text.encode()) % one_in == 0:
            yield text


def _column(shard: Shard) -> Iterator[str]:
    for table in read_columns(shard.path, ["text"]):
        yield from table.column("text").to_pylist()


def _token_lengths(prefix: str) -> dict[str, int]:
    """How many documents have how many tokens, by the bit length of that number."""
    index = read_index(prefix)
    ends = np.asarray(index.document_indices)
    totals = np.concatenate(([0], np.cumsum(index.sequence_lengths, dtype=np.int64)))[ends]
    bits = np.ceil(np.log2(np.diff(totals) + 1)).astype(np.int64)
    return {str(bit): int(count) for bit, count in zip(*np.unique(bits, return_counts=True), strict=True)}
