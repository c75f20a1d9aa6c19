"""``stats_report.txt``: what happened to the texts of a recipe, for people."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

Values = dict[str, Any]

_EXAMPLES = 2
_MOST = 8


def page(statistics: Values) -> str:
    """The statistics as a page of text.

    Args:
        statistics: the content of ``data_stats.json``.
    """
    lines = [f"--- Dataset Statistics: {statistics['name']} ---", f"Date: {date.today().isoformat()}"]
    for title, section in (
        ("Tokenizer Info", _tokenizer(statistics)),
        ("Dataset Info", _dataset(statistics)),
        ("Data Source Distribution", _distribution(statistics)),
        ("Splits", _splits(statistics)),
        ("Sources, as they were read", _sources(statistics)),
        ("Steps: documents and bytes in and out", _steps(statistics)),
        ("Why documents were dropped", _drops(statistics)),
        ("Duplicates and contamination", _global_steps(statistics)),
        ("Languages of what is kept", _languages(statistics)),
        ("Characters of a document that is kept", _lengths(statistics)),
        ("Tokens of a document", _token_lengths(statistics)),
    ):
        content = list(section)
        if content:
            lines += ["", f"{title}:", *content]
    return "\n".join(lines) + "\n"


def _tokenizer(statistics: Values) -> Iterator[str]:
    if tokenizer := statistics["tokenizer"]:
        yield f"- Type: {tokenizer['kind']}"
        yield f"- Path: {tokenizer['name']}"
        yield f"- Vocab Size: {tokenizer['vocab_size']}"


def _dataset(statistics: Values) -> Iterator[str]:
    yield f"- Total Documents: {sum(part['documents'] for part in statistics['splits'].values()):,}"
    yield f"- Total Bytes: {sum(part['bytes'] for part in statistics['splits'].values()):,}"
    if not statistics["corpora"]:
        return
    yield f"- Total Tokens: {sum(part['tokens'] for part in statistics['splits'].values()):,}"
    if length := statistics["packing"]["seq_length"]:
        samples = sum(max(corpus["tokens"] - 1, 0) // length for corpus in statistics["corpora"])
        yield f"- Sequence Length: {length}"
        yield f"- Total Samples: {samples:,}"


def _distribution(statistics: Values) -> Iterator[str]:
    part = next(iter(statistics["splits"]))
    unit = "tokens" if statistics["corpora"] else "bytes"
    rows = [(name, parts[part]) for name, parts in statistics["kept"].items() if part in parts]
    for name, counts in sorted(rows, key=lambda row: (-row[1][unit], row[0])):
        share = 100 * counts["share"]
        yield f"- {name}: {_short(counts[unit])} {unit} ({share:.1f}%), {counts['documents']:,} documents"


def _splits(statistics: Values) -> Iterator[str]:
    if len(statistics["splits"]) > 1:
        for name, counts in statistics["splits"].items():
            tokens = f", {counts['tokens']:,} tokens" if statistics["corpora"] else ""
            yield f"- {name}: {counts['documents']:,} documents, {counts['bytes']:,} bytes{tokens}"


def _sources(statistics: Values) -> Iterator[str]:
    for name, counts in statistics["sources"].items():
        rejected = counts["rejected_records"]
        bad = f", {rejected:,} records that cannot be read (rejected.jsonl)" if rejected else ""
        yield f"- {name}: {counts['files']:,} files, {counts['bytes']:,} bytes{bad}"


def _steps(statistics: Values) -> Iterator[str]:
    width = max(map(len, [*statistics["sources"], "source"]))
    header = f"{'source':{width}}  {'documents in':>14} {'out':>14}  {'bytes in':>18} {'out':>18}  {'changed':>12}"
    for step in statistics["steps"]:
        yield f"- {step['step']}"
        yield f"    {header}"
        for name, counts in step["sources"].items():
            documents = f"{counts['documents_in']:>14,} {counts['documents_out']:>14,}"
            size = f"{counts['bytes_in']:>18,} {counts['bytes_out']:>18,}"
            yield f"    {name:{width}}  {documents}  {size}  {counts['changed']:>12,}"


def _drops(statistics: Values) -> Iterator[str]:
    for step in statistics["steps"]:
        dropped: Counter[str] = Counter()
        for counts in step["sources"].values():
            dropped.update(counts["dropped"])
        for reason, count in sorted(dropped.items(), key=lambda item: (-item[1], item[0])):
            yield f"- {step['step']}: {reason}: {count:,}"
            for example in step["examples"].get(reason, [])[:_EXAMPLES]:
                detail = f" ({example['detail']})" if example["detail"] else ""
                text = " ".join(example["text"].split())[:60]
                yield f"    for example {example['source']} {example['id']}{detail}: {text}"


def _global_steps(statistics: Values) -> Iterator[str]:
    for step in statistics["global_steps"]:
        if step["kind"] == "exact_dedup":
            yield (
                f"- {step['step']}: {step['compared']:,} {step['unit']}s compared, {step['dropped']:,} repeat one of "
                f"{step['groups']:,} that are kept"
            )
        elif step["kind"] == "near_dedup":
            yield (
                f"- {step['step']}: {step['clusters']:,} clusters of {step['documents_in_clusters']:,} documents, "
                f"{step['dropped']:,} dropped; {step['compared_pairs']:,} pairs compared"
            )
            if "in_index" in step:
                yield f"    {step['in_index']:,} resemble documents of the index"
            sizes = sorted(step["clusters_by_size"].items(), key=lambda item: int(item[0]))
            if sizes:
                shown = ", ".join(f"{count:,} of {size}" for size, count in sizes[:_MOST])
                yield f"    by size: {shown}{', …' if len(sizes) > _MOST else ''}"
        else:
            for found in step["sets"]:
                yield (
                    f"- {step['step']}: {found['name']}: {found['found']:,} of {found['searched']:,} items found, "
                    f"{found['whole']:,} of them whole ({found['items']:,} items in all)"
                )


def _languages(statistics: Values) -> Iterator[str]:
    for source, languages in statistics["languages"].items():
        total = sum(languages.values())
        shown = ", ".join(f"{name} {100 * count / total:.1f}%" for name, count in [*languages.items()][:_MOST])
        yield f"- {source}: {shown}{', …' if len(languages) > _MOST else ''}"


def _lengths(statistics: Values) -> Iterator[str]:
    total: Counter[int] = Counter()
    for counts in statistics["steps"][-1]["sources"].values():
        total.update({int(bits): count for bits, count in counts["lengths"].items()})
    yield from _histogram(total)


def _token_lengths(statistics: Values) -> Iterator[str]:
    total: Counter[int] = Counter()
    for corpus in statistics["corpora"]:
        total.update({int(bits): count for bits, count in corpus["token_lengths"].items()})
    yield from _histogram(total)


def _histogram(counts: Counter[int]) -> Iterator[str]:
    most = max(counts.values(), default=1)
    for bits, count in sorted(counts.items()):
        low, high = (1 << bits - 1 if bits else 0), (1 << bits) - 1
        bar = "#" * round(40 * count / most)
        yield f"  {low:>12,} to {high:<12,} {count:>14,} {bar}"


def _short(number: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
