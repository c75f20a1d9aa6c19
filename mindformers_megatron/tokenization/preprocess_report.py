"""What a tokenization did, as values, as JSON, and as text for people."""

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from mindformers_megatron.format.writer import WrittenPair
from mindformers_megatron.tokenization.counts import Counts


@dataclass(frozen=True, slots=True)
class PreprocessReport:
    """What a run did.

    Attributes:
        pairs: prefix of each pair and what was written there.
        dtype: type of the tokens.
        eod_id: the token at the end of each document, None if none was appended.
        input_files: how many.
        input_bytes: of all input files.
        counts: what was found in them.
        rejects_path: where the lines that are no records are listed, None if there were none.
        engine: what encoded.
        engine_version: its version.
        engine_verdict: what checks found about it, in words; empty where the library that defines the ids encoded.
        tokenizer: path of the tokenizer.
        tokenizer_kind: its kind.
        vocab_size: its ids.
        seq_length: the one asked for.
        reused_parts: parts that an earlier, killed run had finished.
        workers: how many worked.
        seconds: from start to end.
    """

    pairs: dict[str, WrittenPair]
    dtype: str
    eod_id: int | None
    input_files: int
    input_bytes: int
    counts: Counts
    rejects_path: str | None
    engine: str
    engine_version: str
    engine_verdict: str
    tokenizer: str
    tokenizer_kind: str
    vocab_size: int
    seq_length: int | None
    reused_parts: int
    workers: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """JSON values, rates included."""
        counts = self.counts
        return {
            "pairs": {prefix: asdict(pair) for prefix, pair in self.pairs.items()},
            "dtype": self.dtype,
            "eod_id": self.eod_id,
            "input_files": self.input_files,
            "input_bytes": self.input_bytes,
            "tokenizer": self.tokenizer,
            "tokenizer_kind": self.tokenizer_kind,
            "vocab_size": self.vocab_size,
            "engine": self.engine,
            "engine_version": self.engine_version,
            "engine_verdict": self.engine_verdict,
            "seq_length": self.seq_length,
            "lines": counts.lines,
            "blanks": counts.blanks,
            "rejects": counts.rejects,
            "rejects_path": self.rejects_path,
            "documents": counts.documents,
            "tokens": counts.tokens,
            "special_tokens_in_text": counts.special_tokens,
            "texts_audited": counts.audited,
            "texts_with_unassigned_code_points": counts.referred,
            "sources": {
                source: {"documents": documents, "tokens": counts.tokens_of[source]}
                for source, documents in sorted(counts.documents_of.items())
            },
            "reused_parts": self.reused_parts,
            "workers": self.workers,
            "seconds": round(self.seconds, 3),
            "mb_per_second": round(self.input_bytes / 1e6 / self.seconds, 3),
            "tokens_per_second": round(counts.tokens / self.seconds),
        }

    def to_text(self, name: str) -> str:
        """The statistics as a page of text.

        Args:
            name: of the dataset.
        """
        counts = self.counts
        lines = [
            f"--- Dataset Statistics: {name} ---",
            f"Date: {date.today().isoformat()}",
            "",
            "Tokenizer Info:",
            f"- Type: {self.tokenizer_kind}",
            f"- Path: {self.tokenizer}",
            f"- Vocab Size: {self.vocab_size}",
            "",
            "Dataset Info:",
            f"- Total Documents: {counts.documents:,}",
            f"- Total Tokens: {counts.tokens:,}",
        ]
        if self.seq_length is not None:
            samples = sum(max(pair.num_tokens - 1, 0) // self.seq_length for pair in self.pairs.values())
            lines += [f"- Sequence Length: {self.seq_length}", f"- Total Samples: {samples:,}"]
        lines += ["", "Data Source Distribution:"]
        for source, tokens in sorted(counts.tokens_of.items(), key=lambda entry: (-entry[1], entry[0])):
            share = 100 * tokens / max(counts.tokens, 1)
            lines.append(
                f"- {source}: {_short(tokens)} tokens ({share:.1f}%), {counts.documents_of[source]:,} documents"
            )
        return "\n".join(lines) + "\n"


def _short(number: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
