"""Looking at all tokens of a pair, and at the hashes of its files."""

from dataclasses import dataclass
from typing import Any, Literal

from mindformers_megatron.format.index import Index
from mindformers_megatron.format.paths import bin_path, idx_path
from mindformers_megatron.format.verify.findings import SHOWN, Finding
from mindformers_megatron.format.verify.spans import Spans, union
from mindformers_megatron.format.verify.tasks import HashFile, RunTasks, Task
from mindformers_megatron.format.verify.tokens import BadToken, ScanTokens, TokenRules, TokensSeen

_BYTES_AT_ONCE = 1 << 26
_DOCUMENTS_AT_ONCE = 1 << 18
_SEQUENCES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Checksums:
    """What the files of a pair should hash to.

    Attributes:
        algorithm: which hash.
        bin: that of ``.bin``, hex.
        idx: that of ``.idx``, hex.
        origin: the file that says so.
    """

    algorithm: Literal["sha256", "md5"]
    bin: str
    idx: str
    origin: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What was found in the tokens.

    Attributes:
        bad_ids: documents with tokens that are no ids.
        bad_ends: documents that do not end with EOD.
        inner_ends: documents with a sequence that ends with EOD and is not their last.
        ids: what is said of the first few bad ids.
        ends: what is said of the first few bad ends.
        largest: the largest id; -1 if there is none.
        bin_matches: whether ``.bin`` has its checksum; None if none is known.
        idx_matches: whether ``.idx`` has.
    """

    bad_ids: Spans
    bad_ends: Spans
    inner_ends: Spans
    ids: tuple[Finding, ...]
    ends: tuple[Finding, ...]
    largest: int
    bin_matches: bool | None
    idx_matches: bool | None


def scan_contents(
    index: Index, skipped: Spans, rules: TokenRules, checksums: Checksums | None, run: RunTasks
) -> Contents:
    """Reads all tokens of the documents that have a certain place, and hashes both files.

    Args:
        index: the index.
        skipped: documents without a certain place.
        rules: what the tokens should be like.
        checksums: what the files should hash to, None if that is not known.
        run: does the work.
    """
    hashing: list[Task] = []
    if checksums is not None:
        # The longest first: a file is hashed in one go.
        paths = (bin_path(index.prefix), idx_path(index.prefix))
        hashing = [HashFile(path, checksums.algorithm) for path in paths]
    multimodal = index.sequence_modes is not None
    documents, at_once = index.num_documents, _documents_at_once(index)
    scanning = [
        ScanTokens(index.prefix, multimodal, begin, min(begin + at_once, documents), skipped, rules)
        for begin in range(0, documents, at_once)
    ]
    results: list[Any] = list(run([*hashing, *scanning]))
    digests, seen = results[: len(hashing)], results[len(hashing) :]
    return _joined(seen, rules, digests, checksums)


def _documents_at_once(index: Index) -> int:
    documents = index.num_documents
    size = index.num_tokens * index.dtype.itemsize
    by_bytes = _BYTES_AT_ONCE * documents // max(size, 1)
    by_sequences = _SEQUENCES_AT_ONCE * documents // max(index.num_sequences, 1)
    return max(min(_DOCUMENTS_AT_ONCE, by_bytes, by_sequences), 1)


def _joined(seen: list[TokensSeen], rules: TokenRules, digests: list[str], checksums: Checksums | None) -> Contents:
    ids = [token for part in seen for token in part.ids][:SHOWN]
    ends = [token for part in seen for token in part.ends][:SHOWN]
    below = "0 or more" if rules.vocab_size is None else f"0 to {rules.vocab_size - 1:,}"
    return Contents(
        bad_ids=union(part.bad_ids for part in seen),
        bad_ends=union(part.bad_ends for part in seen),
        inner_ends=union(part.inner_ends for part in seen),
        ids=tuple(_finding("id", token, f"found id {token.value:,}, expected {below}") for token in ids),
        ends=tuple(
            _finding("eod", token, f"ends with id {token.value:,}, expected EOD {rules.eod_id:,}") for token in ends
        ),
        largest=max((part.largest for part in seen), default=-1),
        bin_matches=None if checksums is None else digests[0] == checksums.bin,
        idx_matches=None if checksums is None else digests[1] == checksums.idx,
    )


def _finding(kind: Literal["id", "eod"], token: BadToken, message: str) -> Finding:
    return Finding(
        kind=kind,
        message=message,
        document=token.document,
        last_document=token.document,
        sequence=token.sequence,
        token=token.token,
        byte=token.byte,
    )
