"""What a run prints once when it starts: the corpora, the mix in force, and which files they are."""

from mindformers_megatron.sampling.plan import SamplePlan

HEADINGS = ("corpus", "tokens", "weight", "share", "samples", "epochs", "fingerprint", "path")


def describe(plan: SamplePlan, samples: int | None = None) -> str:
    """The plan as a table in text: for each corpus what was asked, what is in force, and which files it is.

    Args:
        plan: The plan.
        samples: Samples that the table is about; None: ``num_samples`` of the plan.
    """
    samples = samples or plan.num_samples
    rows = [HEADINGS]
    for row in plan.table(samples):
        weight = "-" if row.weight is None else f"{row.weight:g}"
        share, epochs = f"{row.share:.4%}", f"{row.epochs:.3g}"
        counts = (f"{row.tokens:,}", weight, share, f"{row.samples:,}", epochs)
        rows.append((row.name, *counts, row.fingerprint[:12], f"{row.path}.bin"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    spec = plan.spec
    masks = f"loss_mask {spec.loss_mask}, positions {'reset' if spec.reset_position_ids else 'not reset'}"
    head = (
        f"data plan {plan.fingerprint[:12]}: {len(plan.corpora)} corpora, "
        f"{samples:,} samples of {spec.seq_length} tokens, order {spec.order}, "
        f"shuffle {spec.shuffle}, seed {spec.seed}, {masks} (boundaries by {spec.boundaries})"
    )
    return "\n".join([head, *lines])
