"""A corpus of 10,000 documents that is really tokenized, and what tests do to its files."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pairs import GOLDEN

from mindformers_megatron.format.index import Index, map_index
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path, metadata_path
from mindformers_megatron.tokenization.preprocess import preprocess
from mindformers_megatron.tokenization.preprocess_spec import PreprocessSpec
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

TOKENIZER = GOLDEN / "preprocess" / "tokenizer"
DOCUMENTS = 10_000
_WORDS = ["def", "return", "class", "import", "the", "of", "and", "to", "number", "value", "string", "list"]


@dataclass(frozen=True)
class Pair:
    """A pair whose files tests change.

    Attributes:
        prefix: where it is.
        folder: where its raw text is.
    """

    prefix: str
    folder: Path

    @property
    def index(self) -> Index:
        return map_index(self.prefix)

    @property
    def bin(self) -> np.ndarray:
        """The bytes of ``.bin``, as they are."""
        return np.memmap(bin_path(self.prefix), np.uint8, "r+")

    @property
    def idx(self) -> np.ndarray:
        return np.memmap(idx_path(self.prefix), np.uint8, "r+")

    def array(self, name: str) -> np.ndarray:
        """An array of the index, to be written to."""
        index = self.index
        sequences = index.num_sequences
        dtype, start, count = {
            "lengths": ("<i4", 34, sequences),
            "pointers": ("<i8", 34 + 4 * sequences, sequences),
            "documents": ("<i8", 34 + 12 * sequences, index.num_documents + 1),
        }[name]
        return np.memmap(idx_path(self.prefix), dtype, "r+", start, (count,))

    def files(self) -> tuple[bytes, bytes]:
        return bin_path(self.prefix).read_bytes(), idx_path(self.prefix).read_bytes()

    def without_metadata(self) -> "Pair":
        metadata_path(self.prefix).unlink()
        docs_path(self.prefix).unlink()
        Path(f"{self.prefix}.md5").unlink()
        return self


def records() -> Iterator[dict[str, object]]:
    """Short texts; some empty, some of several sequences."""
    rng = np.random.default_rng(7)
    for number in range(DOCUMENTS):
        words = " ".join(_WORDS[word] for word in rng.integers(0, len(_WORDS), rng.integers(1, 40)))
        text: object = words
        if number % 41 == 0:
            text = ""
        elif number % 10 == 0:
            text = [words, "", "and so on", f"number {number}"]
        yield {"id": f"d{number}", "text": text, "meta": {"source": f"s{number % 3}"}}


def tokenize_corpus(folder: Path) -> Pair:
    """Makes the corpus, sound."""
    (folder / "raw.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records()))
    spec = PreprocessSpec(
        inputs=[folder / "raw.jsonl"],
        output_prefix=str(folder / "corpus"),
        tokenizer=TokenizerSpec(path=TOKENIZER),
        append_eod=True,
        engine="hf",
        workers=1,
    )
    (prefix,) = preprocess(spec).pairs
    return Pair(prefix, folder)


def copy_pair(pair: Pair, prefix: Path) -> Pair:
    """Copies it with all that is beside it."""
    for path in (bin_path, idx_path, metadata_path, docs_path):
        shutil.copy(path(pair.prefix), path(str(prefix)))
    shutil.copy(f"{pair.prefix}.md5", f"{prefix}.md5")
    return Pair(str(prefix), pair.folder)
