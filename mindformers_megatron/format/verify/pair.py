"""Looking at a pair: at what takes the same time for every pair, or at the whole of it."""

import os
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.checksums import read_md5
from mindformers_megatron.format.index import Index, map_index, read_index
from mindformers_megatron.format.metadata import Metadata, read_metadata
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path, metadata_path, prefix_of
from mindformers_megatron.format.provenance import count_docs
from mindformers_megatron.format.verify.contents import Checksums, Contents, scan_contents
from mindformers_megatron.format.verify.findings import SHOWN, Finding, Kind, Verdict
from mindformers_megatron.format.verify.index_damage import IndexDamage, scan_index
from mindformers_megatron.format.verify.origins import with_origins
from mindformers_megatron.format.verify.spans import Spans, no_spans, size_of, union
from mindformers_megatron.format.verify.tasks import RunTasks, run_here
from mindformers_megatron.format.verify.token_types import Judgement, judge_type
from mindformers_megatron.format.verify.tokens import TokenRules


def verify_pair(
    prefix: str | os.PathLike[str],
    *,
    full: bool = False,
    vocab_size: int | None = None,
    eod_id: int | None = None,
    multimodal: bool = False,
    run: RunTasks = run_here,
) -> Verdict:
    """Looks for damage in a pair. Never raises because of what is in its files.

    Without ``full``: header, counts, sizes, the ends of the arrays, a sample of the tokens, and whether metadata and
    provenance belong to it. With ``full``: every value of the index, every token, and the checksums that are known. In
    memory that does not depend on the size of the pair, apart from 16 bytes for each stretch of damaged documents.

    Args:
        prefix: the prefix, the ``.bin`` or the ``.idx``.
        full: read all of it.
        vocab_size: ids are below it; None: as the metadata says, if there is any.
        eod_id: all documents that have tokens end with it; None: as the metadata says.
        multimodal: the index ends in one mode per sequence.
        run: does the work, for example in several processes.
    """
    look = _Look(prefix_of(prefix), full)
    try:
        index = map_index(prefix, multimodal=multimodal)
        bin_size = bin_path(index.prefix).stat().st_size
    except DataError as error:
        look.add("file", str(error))
        return look.verdict(None)
    metadata = look.metadata(index)
    rules = look.rules(metadata, vocab_size, eod_id)
    look.provenance(index)
    judgement = judge_type(index, bin_size, rules.vocab_size, rules.eod_id)
    look.token_type(index, judgement)
    if not full or look.counts["dtype"]:
        look.quickly(index, metadata, rules, judgement)
        return look.verdict(index)
    damage = scan_index(index, bin_size, None if metadata is None else metadata.tokens, run)
    look.index_damage(damage, metadata)
    if damage.located:
        checksums = look.checksums(metadata)
        contents = scan_contents(index, damage.documents, rules, checksums, run)
        from_metadata = vocab_size is None
        look.contents(index, contents, rules, checksums, trusted=from_metadata)
    return look.verdict(index)


def bytes_looked_at(prefix: str | os.PathLike[str]) -> int:
    """About how many bytes a full look at a pair reads, for showing how far it has come."""
    name = prefix_of(prefix)
    sizes = [path.stat().st_size if path.is_file() else 0 for path in (bin_path(name), idx_path(name))]
    hashed = metadata_path(name).exists() or os.path.exists(f"{name}.md5")  # noqa: PTH110 - a text, not a Path
    return sum(sizes) * (2 if hashed else 1)


class _Look:
    """What has been found so far."""

    def __init__(self, prefix: str, full: bool) -> None:
        self._prefix = prefix
        self._full = full
        self._findings: list[Finding] = []
        self._notes: list[str] = []
        self._damaged: list[Spans] = []
        self._readable = self._located = True
        self._index_explained = self._bin_explained = False
        self.counts: Counter[Kind] = Counter()

    def add(self, kind: Kind, message: str) -> None:
        """Notes what has no place."""
        self._add([Finding(kind=kind, message=message)], {kind: 1})
        self._readable &= kind not in ("file", "dtype")
        self._located &= kind in ("metadata", "provenance")

    def metadata(self, index: Index) -> Metadata | None:
        """The metadata, if there is any that belongs to the pair."""
        try:
            metadata = read_metadata(self._prefix)
        except DataError as error:
            self.add("metadata", str(error))
            return None
        if metadata is None:
            return None
        path = metadata_path(self._prefix)
        if metadata.dtype != index.dtype.name:
            self.add("dtype", f"the index says {index.dtype.name}, {path} says {metadata.dtype}")
        counts = (("documents", index.num_documents), ("sequences", index.num_sequences))
        for name, found in counts:
            stated = getattr(metadata, name)
            if stated != found:
                self.add(
                    "metadata", f"{path} says {stated:,} {name}, but the index has {found:,}; it is of another pair"
                )
                return None
        return metadata

    def rules(self, metadata: Metadata | None, vocab_size: int | None, eod_id: int | None) -> TokenRules:
        """What the tokens should be like."""
        if vocab_size is None and metadata is not None:
            vocab_size = metadata.vocab_size
        if eod_id is None and metadata is not None and metadata.options.get("append_eod") is True:
            eod_id = metadata.eod_id
        if vocab_size is None:
            self._notes.append(
                "ids were not compared with a vocabulary, whose size is not known; give it as --vocab-size"
            )
        if eod_id is None:
            self._notes.append("nothing says that documents end with EOD; if they do, give its id as --eod-id")
        return TokenRules(vocab_size, eod_id)

    def provenance(self, index: Index) -> None:
        """Whether there is a row for each document."""
        try:
            rows = count_docs(self._prefix)
        except DataError as error:
            self.add("provenance", str(error))
            return
        if rows is not None and rows != index.num_documents:
            self.add("provenance", f"{docs_path(self._prefix)}: {rows:,} rows for {index.num_documents:,} documents")

    def token_type(self, index: Index, judgement: Judgement) -> None:
        """Whether the tokens are of the type that the index names."""
        better = judgement.better
        if better is None:
            return
        named = judgement.named
        if named is None:
            unfit = "in which the tokens would not fill the .bin"
        elif better.ids - named.ids > better.ends - named.ends:
            unfit = f"in which {1 - named.ids:.0%} of a sample are no ids"
        else:
            unfit = f"in which {1 - named.ends:.0%} of sampled documents do not end with EOD"
        self.add(
            "dtype",
            f"the index says {index.dtype.name}, {unfit}; as {better.name} it is sound, with ids up to "
            f"{better.largest:,}: `mfm convert {self._prefix} --bin-dtype '{better.option}' --output-prefix NEW` "
            "reads it so",
        )

    def quickly(self, index: Index, metadata: Metadata | None, rules: TokenRules, judgement: Judgement) -> None:
        """What shows in O(1)."""
        if self.counts["dtype"]:
            return
        try:
            read_index(self._prefix, multimodal=index.sequence_modes is not None)
        except DataError as error:
            self.add("file", str(error))
            return
        if metadata is not None and metadata.tokens != index.num_tokens:
            self.add("metadata", _other_tokens(self._prefix, metadata, index.num_tokens))
        named = judgement.named
        if rules.vocab_size is not None and named is not None and named.ids < 1:
            self.add("id", f"a sample of the tokens has ids that are not below {rules.vocab_size:,}; see --full")

    def index_damage(self, damage: IndexDamage, metadata: Metadata | None) -> None:
        """What is wrong in the arrays of the index."""
        self._add(damage.findings, Counter(finding.kind for finding in damage.findings))
        self._damaged.append(damage.documents)
        self._readable &= damage.located
        kinds = {finding.kind for finding in damage.findings}
        self._index_explained = bool(kinds)
        self._bin_explained = "size" in kinds
        if not kinds and metadata is not None and metadata.tokens != damage.tokens:
            self.add("metadata", _other_tokens(self._prefix, metadata, damage.tokens))

    def checksums(self, metadata: Metadata | None) -> Checksums | None:
        """What the files should hash to."""
        if metadata is not None:
            return Checksums("sha256", metadata.bin_sha256, metadata.idx_sha256, metadata_path(self._prefix).name)
        try:
            md5 = read_md5(self._prefix)
        except DataError as error:
            self.add("checksum", str(error))
            return None
        if md5 is not None and len(md5) == 2:
            return Checksums("md5", md5[".bin"], md5[".idx"], f"{bin_path(self._prefix).stem}.md5")
        self._notes.append("there are no checksums to compare with; a changed token that is an id does not show")
        return None

    def contents(
        self, index: Index, contents: Contents, rules: TokenRules, checksums: Checksums | None, *, trusted: bool
    ) -> None:
        """What is wrong with the tokens; ``trusted`` if the vocabulary is that of the metadata."""
        # A .bin that has its checksum has no wrong ids.
        bad_ids = contents.bad_ids
        if len(bad_ids) and contents.bin_matches and trusted and checksums is not None:
            self._notes.append(
                f"ids go up to {contents.largest:,}, and the vocabulary has {rules.vocab_size:,}: it has gaps, "
                f"so that a model needs a vocab_size of {contents.largest + 1:,} or more"
            )
            bad_ids = no_spans()
        if len(bad_ids):
            self._add(contents.ids, {"id": size_of(bad_ids)})
        if len(contents.bad_ends):
            self._add(contents.ends, {"eod": size_of(contents.bad_ends)})
        self._damaged += [bad_ids, contents.bad_ends]
        self._bin_explained |= bool(len(bad_ids) or len(contents.bad_ends))
        if contents.idx_matches is False and len(contents.inner_ends):
            self._moved_boundaries(index, contents.inner_ends)
        if checksums is None:
            return
        for path, matches, explained in (
            (bin_path(self._prefix), contents.bin_matches, self._bin_explained),
            (idx_path(self._prefix), contents.idx_matches, self._index_explained),
        ):
            if not matches:
                where = "" if explained else ", and nothing shows where"
                message = f"{path}: {checksums.algorithm} is not that of {checksums.origin}: it was changed{where}"
                self._add([Finding(kind="checksum", message=message)], {"checksum": 1})
                self._located &= explained

    def verdict(self, index: Index | None) -> Verdict:
        """All of it."""
        findings = tuple(self._findings)
        if index is not None and not self.counts["provenance"]:
            findings = with_origins(self._prefix, findings)
        return Verdict(
            prefix=self._prefix,
            full=self._full,
            dtype=None if index is None else index.dtype.name,
            documents=None if index is None else index.num_documents,
            sequences=None if index is None else index.num_sequences,
            tokens=None if index is None else index.num_tokens,
            findings=findings,
            counts=dict(self.counts),
            damaged=union(self._damaged),
            readable=self._readable,
            located=self._readable and self._located,
            notes=tuple(self._notes),
        )

    def _add(self, findings: Sequence[Finding], counts: dict[Kind, int] | Counter[Kind]) -> None:
        room: dict[Kind, int] = {kind: SHOWN - min(self.counts[kind], SHOWN) for kind in counts}
        for finding in findings:
            if room[finding.kind]:
                self._findings.append(finding)
                room[finding.kind] -= 1
        self.counts.update(counts)

    def _moved_boundaries(self, index: Index, documents: Spans) -> None:
        # A document between two that were given its sequences has none left; it goes with them.
        ranges = []
        for begin, end in documents.tolist():
            first, last = begin, end
            while first and index.document_indices[first - 1] == index.document_indices[first]:
                first -= 1
            while last < index.num_documents and index.document_indices[last] == index.document_indices[last + 1]:
                last += 1
            ranges.append((first, last))
        message = "has sequences that end with EOD before its last one, and the index was changed"
        self._add(
            [Finding(kind="boundary", message=message, document=a, last_document=b - 1) for a, b in ranges[:SHOWN]],
            {"boundary": len(ranges)},
        )
        self._damaged.append(union([np.array(ranges, np.int64)]))
        self._index_explained = True


def _other_tokens(prefix: str, metadata: Metadata, found: int) -> str:
    return f"{metadata_path(prefix)} says {metadata.tokens:,} tokens, but the pair has {found:,}; it is of another pair"
