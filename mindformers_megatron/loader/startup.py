"""What a run prints once when it starts: the corpora, the mix in force, and where the stream goes on."""

from mindformers_megatron.sampling.plan import SamplePlan

HEADINGS = ("corpus", "tokens", "weight", "share", "epochs", "fingerprint", "path")


def describe(plan: SamplePlan) -> str:
    """The plan as a table in text: for each corpus what was asked, what is in force, and which files it is."""
    rows = [HEADINGS]
    for row in plan.table():
        weight = "-" if row.weight is None else f"{row.weight:g}"
        cells = (row.name, f"{row.tokens:,}", weight, f"{row.share:.4%}", f"{row.epochs:.3g}", row.fingerprint[:12])
        rows.append((*cells, f"{row.path}.bin"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    spec = plan.spec
    head = (
        f"data plan {plan.fingerprint[:12]}: {len(plan.corpora)} corpora, seq_length {spec.seq_length}, "
        f"seed {spec.seed}, shuffle {spec.shuffle}, {plan.num_samples:,} samples an epoch"
    )
    return "\n".join([head, *lines])
