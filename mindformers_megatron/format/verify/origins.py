"""Naming the raw records that damaged documents were made from."""

from collections.abc import Sequence
from dataclasses import replace

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.paths import docs_path
from mindformers_megatron.format.provenance_rows import DocRows
from mindformers_megatron.format.verify.findings import Finding


def with_origins(prefix: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings with the source of the first document of each, as far as provenance tells.

    Args:
        prefix: of the pair.
        findings: what was found in it.
    """
    documents = sorted({finding.document for finding in findings if finding.document is not None})
    if not documents or not docs_path(prefix).exists():
        return tuple(findings)
    try:
        lookup = DocRows(prefix)
        rows = {document: next(lookup.rows(document, document + 1)) for document in documents}
    except DataError:
        # Provenance that cannot be read is a finding of its own.
        return tuple(findings)
    described = []
    for finding in findings:
        if finding.document is not None:
            row = rows[finding.document]
            finding = replace(finding, source=f"{row['file']}:{row['line']}", id=row["id"])
        described.append(finding)
    return tuple(described)
