"""The mix that a training has really been given, every so many steps: to the log, to JSON lines and to TensorBoard."""

import logging
from typing import Any

import numpy as np
from mindformers.tools.utils import get_real_rank
from mindformers.utils.tensorboard import get_tensorboard_writer
from mindspore.train import Callback

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.loader.callbacks import find_loader
from mindformers_megatron.loader.json_lines import JsonLines
from mindformers_megatron.loader.loader import BlendedMegatronDataLoader
from mindformers_megatron.sampling.delivered import Delivered, delivered, samples_asked, samples_given
from mindformers_megatron.sampling.describe import lines_of
from mindformers_megatron.sampling.grouped_plan import GroupedPlan
from mindformers_megatron.sampling.sources import SourceCounter

logger = logging.getLogger(__name__)


class MegatronMixMonitor(Callback):  # type: ignore[misc]
    """Reports the shares of the corpora in what steps were given, over all ranks, beside the shares asked for.

    Sample i is the same wherever it is computed, so rank 0 counts for all ranks and nothing is exchanged. That the
    batches are what the plan says is checked on the rows that rank 0 has been given itself, at each report, where the
    network's inputs can be seen (not in sink mode).

    For corpora with ``<prefix>.docs.parquet``, the shares of tokens by ``source`` are reported too, over a part of the
    samples. A corpus whose share is off by more than ``bound`` gets a warning.

    YAML: ``callbacks: [{type: MegatronMixMonitor, interval: 100, path: mix.jsonl}]``.
    """

    def __init__(
        self, interval: int = 100, path: str | None = None, bound: float = 0.01, source_samples: int = 64
    ) -> None:
        """Opens nothing yet.

        Args:
            interval: Steps between two reports; what is left is reported at the end.
            path: A file for JSON lines; a resumed run appends to it, and may report some steps again.
            bound: How far a share may be off, as a part of all samples. The few samples by which every mix of whole
                samples is off are allowed besides.
            source_samples: Samples, evenly spaced between two reports, whose tokens are counted by source; 0: none.
                The first reports of a very large corpus read a part of its provenance for each of them.

        Raises:
            ConfigError: One line, for a value out of range.
        """
        super().__init__()
        for name, value, least in (("interval", interval, 1), ("source_samples", source_samples, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"MegatronMixMonitor: {name} is {value!r}; expected a whole number ≥ {least}")
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 < bound < 1:
            raise ConfigError(f"MegatronMixMonitor: bound is {bound!r}; expected a share between 0 and 1, as 0.01")
        self.interval, self.bound, self.source_samples = interval, bound, source_samples
        self.lines = None if path is None else JsonLines(path)
        self.loader: BlendedMegatronDataLoader | None = None
        self._sources: SourceCounter | None = None
        self._start = self._first_step = self._reported_step = 0
        self._drifting: set[tuple[str, str]] = set()

    def on_train_begin(self, run_context: Any) -> None:
        """Finds the loader; only rank 0 reports."""
        params = run_context.original_args()
        loader = find_loader(params.train_dataset) if get_real_rank() == 0 else None
        if loader is None:
            return
        self.loader = loader
        self._first_step = params.train_dataset.get_init_step()
        self._start = loader.first_sample(self._first_step, loader.global_batch_size)
        # With shard_files this rank has opened its own files only, which speak for no other.
        if self.source_samples and not isinstance(loader.plan, GroupedPlan):
            counter = SourceCounter(loader.plan)
            self._sources = counter if counter.sources else None
        if self.lines is not None:
            self.lines.open()

    def on_train_step_end(self, run_context: Any) -> None:
        """Reports, if another ``interval`` is over."""
        params = run_context.original_args()
        # In sink mode this is called once for many steps.
        done = (self._first_step + params.cur_step_num) // self.interval
        if self.loader is not None and done > (self._first_step + self._reported_step) // self.interval:
            self._report(params)

    def on_train_end(self, run_context: Any) -> None:
        """Reports on the steps that are left."""
        params = run_context.original_args()
        if self.loader is not None and params.cur_step_num > self._reported_step:
            self._report(params)

    def _report(self, params: Any) -> None:
        assert self.loader is not None
        plan, batch = self.loader.plan, self.loader.global_batch_size
        begin, end = (self._start + step * batch for step in (self._reported_step, params.cur_step_num))
        step = self._first_step + params.cur_step_num
        first_step = self._first_step + self._reported_step + 1
        self._reported_step = params.cur_step_num
        mix, sources = delivered(plan, begin, end), self._by_source(begin, end)
        so_far = dict(zip(plan.names, (samples_given(plan, 0, end) / end).tolist(), strict=True))
        checked = self._check_rows(params, step)
        logger.info("%s", _table(mix, so_far, sources, f"data mix, steps {first_step}-{step}, {end - begin} samples"))
        if self.lines is not None:
            corpora = {
                row.name: {
                    "asked": row.asked,
                    "share": row.share,
                    "samples": row.samples,
                    "tokens": row.tokens,
                    "so_far": so_far[row.name],
                }
                for row in mix
            }
            record = {"step": step, "samples": [begin, end], "corpora": corpora, "sources": sources}
            self.lines.write({**record, "checked_rows": checked})
        writer = get_tensorboard_writer()
        if writer is not None:
            for row in mix:
                writer.add_scalar(f"data-share/{row.name}", row.share, global_step=step)
                writer.add_scalar(f"data-share-asked/{row.name}", row.asked, global_step=step)
            for name, share in sources.items():
                writer.add_scalar(f"data-source/{name}", share, global_step=step)
        self._warn(mix, begin, end, step)

    def _by_source(self, begin: int, end: int) -> dict[str, float]:
        if self._sources is None:
            return {}
        samples = np.unique(np.linspace(begin, end - 1, min(self.source_samples, end - begin)).astype(np.int64))
        counts = self._sources.tokens(samples)
        total = max(1, sum(counts.values()))
        return {name: count / total for name, count in sorted(counts.items(), key=lambda item: -item[1])}

    def _check_rows(self, params: Any, step: int) -> int:
        """Compares the rows that the network was given in this step with the plan's; returns how many there were."""
        assert self.loader is not None
        names = params.train_dataset.get_col_names()
        if params.dataset_sink_mode or "input_ids" not in names:
            return 0
        given = params.train_dataset_element[names.index("input_ids")].asnumpy()
        rows = self.loader.options.rows_per_step
        numbers = self.loader.shard.samples(self._start, (params.cur_step_num - 1) * rows, rows)
        if not np.array_equal(given, self.loader.plan.read(numbers)["input_ids"]):
            logger.warning(
                "the batch of step %d is not samples %d to %d of the data plan: something between the loader and the "
                "network (repeat, take, skip, a second skip on resuming) has changed it, and the shares below do not "
                "hold",
                step,
                numbers[0],
                numbers[-1],
            )
        return rows

    def _warn(self, mix: list[Delivered], begin: int, end: int, step: int) -> None:
        assert self.loader is not None
        plan = self.loader.plan
        run = (samples_given(plan, 0, end) - samples_asked(plan, 0, end)) / end
        by_samples = plan.spec.weight_by == "samples" and plan.spec.dataset_weights is not None
        for row, off in zip(mix, run.tolist(), strict=True):
            # A blend of whole samples is off by less than its number of corpora, which in tokens is as many rows.
            slack, whole = len(mix) / (end - begin), len(mix) / end
            self._warn_of(row, "samples since the last report", row.share - row.asked, slack, step)
            self._warn_of(row, "samples since the start", off, whole, step)
            if by_samples:
                self._warn_of(row, "tokens (weight_by: tokens divides those)", row.tokens - row.asked, slack, step)

    def _warn_of(self, row: Delivered, what: str, off: float, slack: float, step: int) -> None:
        drifts = abs(off) > self.bound + slack
        if drifts and (row.name, what) not in self._drifting:
            logger.warning(
                "data mix drifts at step %d: the share of %s in %s is %+.2f %% off what was asked",
                step,
                row.name,
                what,
                100 * off,
            )
        # Once, until it is back within the bound.
        (self._drifting.add if drifts else self._drifting.discard)((row.name, what))


def _table(mix: list[Delivered], so_far: dict[str, float], sources: dict[str, float], head: str) -> str:
    rows = [("corpus", "asked", "given", "of tokens", "so far", "samples")]
    for row in mix:
        shares = (f"{share:.2%}" for share in (row.asked, row.share, row.tokens, so_far[row.name]))
        rows.append((row.name, *shares, f"{row.samples:,}"))  # type: ignore[arg-type]
    lines = lines_of(rows)
    if sources:
        lines.append("tokens by source: " + ", ".join(f"{name} {share:.2%}" for name, share in sources.items()))
    return "\n".join([head, *lines])
