"""Copies: documents, beginnings of documents, paragraphs and lines that are equal once normalised.

Each shard hashes its texts to 128 bits (XXH3), 28 bytes of row for each. All rows are then put in order of their hash,
and of the equal ones the best is kept: that of the source of highest priority, and there the first in the corpus. In a
corpus of 10**12 texts, two different ones share a hash with a probability of 10**-15, unless somebody makes them so.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.duplicates import WHOLE, Duplicates
from mindformers_megatron.corpus.dedup.spill import Bound, Footprint, Rows, Spill, footprint
from mindformers_megatron.corpus.passages import Unit, split_passages
from mindformers_megatron.errors import ConfigError

I64 = npt.NDArray[np.int64]

NormalForm = Literal["none", "spaces", "words"]

HASH_ROW = np.dtype([("high", np.uint64), ("low", np.uint64), ("rank", np.uint64), ("part", np.int32)])

_GROUP = np.dtype([*HASH_ROW.descr, ("count", np.int64)])
_DROPPED = np.dtype([("document", np.int64), ("part", np.int32), ("kept", np.int64)])

# A rank is the priority above the document number: the smallest is the best.
_DOCUMENT_BITS = 48
_DOCUMENT_MASK = np.uint64((1 << _DOCUMENT_BITS) - 1)
_MOST_PRIORITY = (1 << (64 - _DOCUMENT_BITS)) - 1

_WORDS = re.compile(r"\w+")


def normalise(text: str, form: NormalForm) -> str:
    """Returns what of a text counts when it is compared.

    Args:
        text: any text.
        form: ``none``, the text itself; ``spaces``, composed (NFC), every run of white space as one space, none at the
            ends; ``words``, compatible forms made one (NFKC) and in one case, and nothing but words and single spaces.
    """
    if form == "none":
        return text
    if form == "spaces":
        return " ".join(unicodedata.normalize("NFC", text).split())
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", text).casefold()))


def document_rows(texts: Sequence[str], *, first_document: int, priority: int = 0, form: NormalForm = "spaces") -> Rows:
    """Hashes whole documents.

    Args:
        texts: neighbouring documents of one source.
        first_document: the number, in the whole corpus, of the first of them.
        priority: of their source, 0 to 65535; the smallest keeps its text.
        form: what counts, see ``normalise``.

    Returns:
        ``HASH_ROW``, one per text.
    """
    return _rows([normalise(text, form) for text in texts], _numbers(texts, first_document), priority)


def prefix_rows(
    texts: Sequence[str], characters: int, *, first_document: int, priority: int = 0, form: NormalForm = "spaces"
) -> Rows:
    """Hashes the beginnings of documents: finds pages of one template, and texts that were cut or went on.

    A text shorter than ``characters`` (normalised) equals only one that is the same as a whole.

    Args:
        texts: neighbouring documents of one source.
        characters: of the normalised text, at least 1.
        first_document: see ``document_rows``.
        priority: see ``document_rows``.
        form: see ``document_rows``.
    """
    if characters < 1:
        raise ConfigError(f"a prefix of {characters} characters; give 1 or more")
    beginnings = [normalise(text, form)[:characters] for text in texts]
    return _rows(beginnings, _numbers(texts, first_document), priority)


def passage_rows(
    texts: Sequence[str],
    unit: Unit,
    *,
    first_document: int,
    priority: int = 0,
    form: NormalForm = "spaces",
    min_characters: int = 30,
) -> Rows:
    """Hashes lines or paragraphs.

    Args:
        texts: neighbouring documents of one source.
        unit: line or paragraph.
        first_document: see ``document_rows``.
        priority: see ``document_rows``.
        form: see ``document_rows``.
        min_characters: shorter ones, without white space at the ends, are left alone: a brace or a heading may repeat.

    Returns:
        ``HASH_ROW``, one for each passage long enough; ``part`` is its place in ``split_passages``.
    """
    passages: list[str] = []
    documents: list[int] = []
    parts: list[int] = []
    for number, text in enumerate(texts):
        for part, passage in enumerate(split_passages(text, unit)):
            if len(passage.strip()) >= min_characters:
                passages.append(normalise(passage, form))
                documents.append(number)
                parts.append(part)
    rows = _rows(passages, np.array(documents, dtype=np.int64) + first_document, priority)
    rows["part"] = parts
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOptions:
    """What is compared, and how.

    Attributes:
        unit: ``document``, its ``prefix``, ``paragraph`` or ``line``.
        form: what of a text counts, see ``normalise``.
        prefix_characters: see ``prefix_rows``.
        min_characters: of paragraphs and lines, see ``passage_rows``.
        copies: texts with fewer copies than this, the kept one included, are all left.
    """

    unit: Literal["document", "prefix", "paragraph", "line"] = "document"
    form: NormalForm = "spaces"
    prefix_characters: int = 1000
    min_characters: int = 30
    copies: int = 2

    def __post_init__(self) -> None:
        for name, known in (("unit", ("document", "prefix", "paragraph", "line")), ("form", get_args(NormalForm))):
            if getattr(self, name) not in known:
                raise ConfigError(f"exact duplicates: {name} {getattr(self, name)!r}; give one of {', '.join(known)}")
        for name, least in (("prefix_characters", 1), ("min_characters", 1), ("copies", 2)):
            if getattr(self, name) < least:
                raise ConfigError(f"exact duplicates: {name} {getattr(self, name)}; give {least} or more")


def shard_rows(texts: Sequence[str], options: ExactOptions, *, first_document: int, priority: int = 0) -> Rows:
    """Returns what a shard contributes: ``HASH_ROW``, by ``document_rows``, ``prefix_rows`` or ``passage_rows``."""
    if options.unit == "document":
        return document_rows(texts, first_document=first_document, priority=priority, form=options.form)
    if options.unit == "prefix":
        return prefix_rows(
            texts, options.prefix_characters, first_document=first_document, priority=priority, form=options.form
        )
    return passage_rows(
        texts,
        options.unit,
        first_document=first_document,
        priority=priority,
        form=options.form,
        min_characters=options.min_characters,
    )


def renumbered(rows: Rows, *, first_document: int, priority: int) -> Rows:
    """Returns rows of a shard that was hashed as the first, with priority 0, with their place in the corpus.

    Shards can so be hashed before it is known how many documents are kept of those before them.

    Args:
        rows: ``HASH_ROW``.
        first_document: the number, in the whole corpus, of the shard's first document.
        priority: see ``document_rows``.
    """
    _check_priority(priority)
    moved = rows.copy()
    moved["rank"] += np.uint64(first_document | priority << _DOCUMENT_BITS)
    return moved


def duplicates_footprint(rows: int, bound: Bound) -> Footprint:
    """Tells beforehand what ``find_duplicates`` needs for ``rows`` documents or passages, if all are dropped."""
    return footprint(rows, HASH_ROW.itemsize, bound.half()) + footprint(rows, _DROPPED.itemsize, bound.half())


def find_duplicates(
    shards: Iterable[Rows], *, expected_rows: int, documents: int, bound: Bound, copies: int = 2
) -> Iterator[Duplicates]:
    """Finds which rows repeat a better one.

    Args:
        shards: ``HASH_ROW`` arrays, in any order and cut anyhow.
        expected_rows: how many rows will come; too low a number costs memory.
        documents: how many documents there are; their numbers are below it.
        bound: memory; distinct hashes of one range must fit in it, copies of one hash need not.
        copies: texts with fewer copies than this, the kept one included, are all left.

    Yields:
        What is dropped, ascending by document and part: the same however the shards were cut.
    """
    if copies < 2:
        raise ConfigError(f"drop texts from {copies} copies on; give 2 or more")
    with (
        Spill(HASH_ROW, "high", limit=1 << 64, expected_rows=expected_rows, bound=bound.half()) as hashed,
        Spill(
            _DROPPED, "document", limit=max(documents, 1), expected_rows=expected_rows, bound=bound.half()
        ) as dropped,
    ):
        for rows in shards:
            hashed.add(rows)
        for number in range(hashed.ranges):
            groups = np.zeros(0, dtype=_GROUP)
            for rows in hashed.chunks(number):
                groups = _best(groups, rows)
            repeated = groups[groups["count"] >= copies]
            for rows in hashed.chunks(number):
                dropped.add(_repeats(rows, repeated))
        for rows in dropped:
            rows = rows[np.lexsort((rows["part"], rows["document"]))]
            similarity = np.ones(rows.size, dtype=np.float32)
            yield Duplicates(rows["document"], rows["part"], rows["kept"], similarity)


def _rows(texts: list[str], documents: I64, priority: int) -> Rows:
    import xxhash

    _check_priority(priority)
    digest = xxhash.xxh3_128_digest
    digests = b"".join([digest(text.encode("utf-8", "surrogatepass")) for text in texts])
    rows = np.empty(len(texts), dtype=HASH_ROW)
    rows["high"], rows["low"] = np.frombuffer(digests, dtype=">u8").reshape(-1, 2).T
    rows["rank"] = documents.astype(np.uint64) | np.uint64(priority << _DOCUMENT_BITS)
    rows["part"] = WHOLE
    return rows


def _check_priority(priority: int) -> None:
    if not 0 <= priority <= _MOST_PRIORITY:
        raise ConfigError(f"a source's priority is {priority}; give 0 (kept first) to {_MOST_PRIORITY}")


def _numbers(texts: Sequence[str], first_document: int) -> I64:
    return np.arange(first_document, first_document + len(texts))


def _best(groups: Rows, rows: Rows) -> Rows:
    """The best row of each hash among those of before and new ones, with how many there were; sorted by hash."""
    both = np.empty(groups.size + rows.size, dtype=_GROUP)
    both[: groups.size] = groups
    for name in HASH_ROW.names or ():
        both[name][groups.size :] = rows[name]
    both["count"][groups.size :] = 1
    if not both.size:
        return both
    both = _in_order(both)
    changes = (both["high"][1:] != both["high"][:-1]) | (both["low"][1:] != both["low"][:-1])
    places = np.flatnonzero(np.append(True, changes))
    best = both[places]
    best["count"] = np.add.reduceat(both["count"], places)
    return best


def _in_order(rows: Rows) -> Rows:
    """Sorted by hash, then rank, then part."""
    # Most hashes are alone: one fast sort, and a slow one of what it leaves open.
    rows = rows[np.argsort(rows["high"])]
    equal = rows["high"][1:] == rows["high"][:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    some = rows[tied]
    rows[tied] = some[np.lexsort((some["part"], some["rank"], some["low"], some["high"]))]
    return rows


def _repeats(rows: Rows, groups: Rows) -> Rows:
    """Those rows that have a better one in their group."""
    if not groups.size:
        return np.zeros(0, dtype=_DROPPED)
    place = np.searchsorted(groups["high"], rows["high"])
    # Groups may share the first half of their hash.
    while (behind := _comes_after(rows, groups, place)).any():
        place += behind
    inside = np.minimum(place, groups.size - 1)
    found = groups[inside]
    same = (found["high"] == rows["high"]) & (found["low"] == rows["low"])
    worse = (found["rank"] != rows["rank"]) | (found["part"] != rows["part"])
    chosen = np.flatnonzero(same & worse)
    dropped = np.empty(chosen.size, dtype=_DROPPED)
    dropped["document"] = rows["rank"][chosen] & _DOCUMENT_MASK
    dropped["part"] = rows["part"][chosen]
    dropped["kept"] = found["rank"][chosen] & _DOCUMENT_MASK
    return dropped


def _comes_after(rows: Rows, groups: Rows, place: I64) -> npt.NDArray[np.bool_]:
    inside = np.minimum(place, groups.size - 1)
    found = groups[inside]
    return (place < groups.size) & (found["high"] == rows["high"]) & (found["low"] < rows["low"])
