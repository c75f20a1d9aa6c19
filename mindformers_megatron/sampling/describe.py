"""What a run prints once when it starts: the corpora, the mix in force, and which files they are."""

from collections.abc import Sequence

from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.resume import Change

HEADINGS = ("corpus", "tokens", "weight", "share", "samples", "epochs", "fingerprint", "path")


def describe(plan: SamplePlan, samples: int | None = None) -> str:
    """The plan as a table in text: for each corpus what was asked, what is in force, and which files it is.

    Args:
        plan: The plan.
        samples: Samples that the table is about; None: ``num_samples`` of the plan.
    """
    samples = samples or plan.num_samples
    rows: list[tuple[str, ...]] = [HEADINGS]
    for row in plan.table(samples):
        weight = "-" if row.weight is None else f"{row.weight:g}"
        share, epochs = f"{row.share:.4%}", f"{row.epochs:.3g}"
        counts = (f"{row.tokens:,}", weight, share, f"{row.samples:,}", epochs)
        rows.append((row.name, *counts, row.fingerprint[:12], f"{row.path}.bin"))
    spec = plan.spec
    masks = f"loss_mask {spec.loss_mask}, positions {'reset' if spec.reset_position_ids else 'not reset'}"
    head = (
        f"data plan {plan.fingerprint[:12]}: {len(plan.corpora)} corpora, "
        f"{samples:,} samples of {spec.seq_length} tokens, order {spec.order}, "
        f"shuffle {spec.shuffle}, seed {spec.seed}, {masks} (boundaries by {spec.boundaries})"
    )
    return "\n".join([head, *lines_of(rows)])


def describe_changes(plan: SamplePlan, sample: int, changes: Sequence[Change]) -> str:
    """What a resumed run does otherwise than before, and where each corpus goes on, as a table in text.

    Args:
        plan: The plan of the resumed run.
        sample: Its first sample.
        changes: (field, before, now).
    """
    fields: list[tuple[str, ...]] = [("changed", "before", "now")]
    fields += [(field, str(before), str(now)) for field, before, now in changes]
    corpora: list[tuple[str, ...]] = [("corpus", "share", "has given", "epoch")]
    shares = dict(zip(plan.names, plan.schedule.shares.tolist(), strict=True))
    corpora += [
        (corpus.name, f"{shares[corpus.name]:.4%}", f"{corpus.cursor:,}", str(corpus.epoch))
        for corpus in plan.state(sample).corpora
    ]
    return "\n".join([f"the run goes on at sample {sample:,} with changes", *lines_of(fields), *lines_of(corpora)])


def lines_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its columns as wide as their cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
