"""Perplexity by corpus, in MindFormers' own evaluation during training."""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import mindspore as ms
import numpy as np
from mindformers.core.callback import EvalCallBack
from mindformers.tools.utils import get_real_group_size, get_real_rank
from mindformers.utils.tensorboard import get_tensorboard_writer
from mindspore import nn, ops
from mindspore.train import Callback

from mindformers_megatron.errors import DataError
from mindformers_megatron.loader.callbacks import find_loader
from mindformers_megatron.loader.json_lines import JsonLines
from mindformers_megatron.loader.loader import BlendedMegatronDataLoader
from mindformers_megatron.sampling.describe import lines_of

logger = logging.getLogger(__name__)

Result = dict[str, Any]


class TokenLosses(nn.Cell):  # type: ignore[misc]
    """Cross entropy of each token: logits float[B, L, V] and labels int32[B, L] → float32[B·L], on the device."""

    def construct(self, logits: Any, labels: Any) -> Any:
        """Computes it."""
        flat = ops.cast(ops.reshape(logits, (-1, logits.shape[-1])), ms.float32)
        return ops.cross_entropy(flat, ops.reshape(labels, (-1,)), reduction="none")


class MegatronPerplexity(nn.Metric):  # type: ignore[misc]
    """Mean loss and perplexity over all tokens that count, in all and for each corpus of the evaluation's blend.

    MindFormers' own ``PerplexityMetric`` takes the loss mask to belong to the token that is predicted; in this
    package's samples, as in Megatron's, it belongs to the input. It also takes the mean of batches for the mean of
    tokens. Here labels, masks and corpora are looked up in the plan, since the network hands on none of them, and the
    sums are taken over all ranks. Needs ``MegatronEvaluation``, which ``mfm train`` adds.

    YAML: ``metric: {type: MegatronPerplexity}``.
    """

    def __init__(self) -> None:
        """Sets up a metric that knows no data yet; ``MegatronEvaluation`` tells it the loader."""
        super().__init__()
        self.loader: BlendedMegatronDataLoader | None = None
        self._losses = TokenLosses()
        self.clear()

    def clear(self) -> None:
        """Begins a new evaluation, at the evaluation's first sample."""
        self._rows = 0
        self._sums = np.zeros((2, 0 if self.loader is None else len(self.loader.plan.names)))

    def update(self, *inputs: Any) -> None:
        """Adds a batch.

        Args:
            *inputs: What the network returns in evaluation: logits float[B, L, V], tokens int32[B, L], and a mask.

        Raises:
            DataError: One line, if the tokens are not the next samples of the evaluation's plan.
        """
        if self.loader is None:
            raise DataError(
                "MegatronPerplexity: not told its data; it needs callbacks: [{type: MegatronEvaluation}] and an "
                "eval_dataset of this package"
            )
        logits, tokens = inputs[0], inputs[1].asnumpy()
        plan, shard, rows = self.loader.plan, self.loader.shard, len(tokens)
        samples = shard.samples(0, self._rows, rows)
        if rows == self.loader.global_batch_size:
            # Some parallel modes gather the outputs of all ranks.
            samples = np.arange(self._rows * shard.ranks, self._rows * shard.ranks + rows)
            rows //= shard.ranks
        self._rows += rows
        columns = plan.read(samples)
        if not np.array_equal(columns["input_ids"], tokens):
            raise DataError(
                f"MegatronPerplexity: the batch is not samples {samples[0]} to {samples[-1]} of eval_dataset's plan; "
                "leave repeat, take and skip out of eval_dataset"
            )
        losses = self._losses(logits, ms.Tensor(columns["labels"])).asnumpy().reshape(tokens.shape)
        mask = columns["loss_mask"]
        corpora, _ = plan.locate(samples)
        size = self._sums.shape[1]
        self._sums[0] += np.bincount(corpora, (losses.astype(np.float64) * mask).sum(axis=1), minlength=size)
        self._sums[1] += np.bincount(corpora, mask.sum(axis=1), minlength=size)

    def eval(self) -> Result:
        """Returns ``{"loss", "PPL", "tokens", "corpora": {name: {"loss", "PPL", "tokens"}}}`` over all ranks.

        A corpus of which the evaluation has no sample is left out.
        """
        assert self.loader is not None
        sums = self._sums
        if get_real_group_size() > 1:
            sums = ops.AllReduce()(ms.Tensor(sums.astype(np.float32))).asnumpy().astype(np.float64)
        losses, tokens = sums
        found = {
            name: _perplexity(loss, count)
            for name, loss, count in zip(self.loader.plan.names, losses, tokens, strict=True)
            if count
        }
        return {**_perplexity(losses.sum(), tokens.sum()), "corpora": found}


class MegatronEvaluation(Callback):  # type: ignore[misc]
    """Lets each evaluation see the same samples, one more when the training ends, and reports the result by corpus.

    The evaluation itself is MindFormers' own: ``do_eval: True``, ``eval_step_interval``, ``eval_dataset``. It has a
    loader of its own, so it does not move the training's cursor. ``mfm train`` adds this callback to such a run.

    YAML: ``callbacks: [{type: MegatronEvaluation, path: evaluation.jsonl}]``.
    """

    def __init__(self, path: str | None = None) -> None:
        """Opens nothing yet.

        Args:
            path: A file for JSON lines, one for each evaluation; a resumed run appends to it.
        """
        super().__init__()
        self.lines = None if path is None or get_real_rank() else JsonLines(path)
        self._evaluate: Callable[[], Any] | None = None
        self._first_step = self._step = 0
        self._evaluated_step = -1

    def on_train_begin(self, run_context: Any) -> None:
        """Finds MindFormers' evaluation among the callbacks."""
        params = run_context.original_args()
        self._first_step = self._step = params.train_dataset.get_init_step()
        for evaluation in params.list_callback:
            if isinstance(evaluation, EvalCallBack):
                options = evaluation.eval_func.keywords
                loader = find_loader(options["eval_dataset"])
                if loader is not None:
                    # In sink mode all evaluations read one iterator, an epoch each.
                    loader.sampler.repeat = True
                # There is no public way from a Model to its metrics.
                for metric in options["model"]._metric_fns.values():
                    if isinstance(metric, MegatronPerplexity) and loader is not None:
                        metric.loader = loader
                self._evaluate = evaluation.eval_func = partial(self._report, evaluation.eval_func)
        if self._evaluate is None:
            logger.warning("MegatronEvaluation: the run does not evaluate; it needs do_eval: True")
        elif self.lines is not None:
            self.lines.open()

    def on_train_step_end(self, run_context: Any) -> None:
        """Notes the step; runs before MindFormers' evaluation, which is the last of the callbacks."""
        self._step = self._first_step + run_context.original_args().cur_step_num

    def on_train_end(self, run_context: Any) -> None:
        """Evaluates, unless the last step has been evaluated already."""
        if self._evaluate is not None and self._evaluated_step != self._step:
            self._evaluate()

    def _report(self, evaluate: Callable[[], Any]) -> Any:
        outcome = evaluate()
        self._evaluated_step = self._step
        result = next((found for found in outcome.values() if isinstance(found, dict) and "corpora" in found), None)
        if result is None or get_real_rank():
            return outcome
        logger.info("%s", _table(result, self._step))
        if self.lines is not None:
            self.lines.write({"step": self._step, **result})
        writer = get_tensorboard_writer()
        if writer is not None:
            for name, found in {"all": result, **result["corpora"]}.items():
                writer.add_scalar(f"perplexity/{name}", found["PPL"], global_step=self._step)
        return outcome


def _perplexity(loss: float, tokens: float) -> Result:
    mean = float(loss / tokens) if tokens else math.nan
    # Beyond this a float64 overflows.
    return {"loss": mean, "PPL": math.exp(mean) if mean < 700 else math.inf, "tokens": int(tokens)}


def _table(result: Result, step: int) -> str:
    rows = [("corpus", "perplexity", "loss", "tokens")]
    for name, found in {**result["corpora"], "all": result}.items():
        rows.append((name, f"{found['PPL']:.3f}", f"{found['loss']:.4f}", f"{found['tokens']:,}"))
    return "\n".join([f"evaluation at step {step}", *lines_of(rows)])
