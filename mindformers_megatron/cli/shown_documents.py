"""Documents of a pair as people look at them: where they come from, and their text or ids."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindformers_megatron.format.index import Index
    from mindformers_megatron.tokenization.decoding import Decoder


def shown_documents(
    index: "Index", documents: Sequence[int], decode: "Decoder | None", most_tokens: int
) -> Iterator[dict[str, Any]]:
    """Describes documents as JSON values.

    Args:
        index: of the pair, which must be sound at these documents.
        documents: their numbers, ascending.
        decode: ids to text; None: ids are shown.
        most_tokens: of each document, from its beginning.
    """
    from mindformers_megatron.format.documents import read_documents
    from mindformers_megatron.format.provenance import count_docs
    from mindformers_megatron.format.provenance_rows import DocRows

    rows = DocRows(index.prefix) if count_docs(index.prefix) == index.num_documents else None
    for document in documents:
        (batch,) = read_documents(index, document, document + 1)
        ids = batch.tokens[:most_tokens].tolist()
        shown: dict[str, Any] = {"document": document, "tokens": batch.tokens.size}
        if batch.lengths.size > 1:
            shown["sequences"] = batch.lengths.size
        if rows is not None:
            row = next(rows.rows(document, document + 1))
            shown |= {"source": row["source"], "file": row["file"], "line": row["line"], "id": row["id"]}
        yield {**shown, "ids": ids} if decode is None else {**shown, "text": decode(ids)}


def document_lines(shown: dict[str, Any]) -> Iterator[str]:
    """The lines for one of them."""
    parts = [f"document {shown['document']:,}", f"{shown['tokens']:,} tokens"]
    if "sequences" in shown:
        parts.append(f"{shown['sequences']:,} sequences")
    if "file" in shown:
        named = f" ({shown['id']})" if shown["id"] is not None else ""
        parts.append(f"{shown['file']}:{shown['line']}{named}")
    yield f"── {', '.join(parts)}"
    if "ids" in shown:
        more = " …" if shown["tokens"] > len(shown["ids"]) else ""
        yield "   " + " ".join(map(str, shown["ids"])) + more
    else:
        # Line ends are part of a text; other control characters would do as they like with a terminal.
        text = "".join(char if char.isprintable() or char in "\n\t" else "�" for char in shown["text"])
        yield from (f"   {line}" for line in text.splitlines() or [""])
