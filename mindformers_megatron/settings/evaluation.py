"""What an evaluation during training needs and the YAML leaves out, and documents that are in both data sets."""

import logging

from mindformers_megatron.format.paths import prefix_of
from mindformers_megatron.settings.yaml_file import Config

logger = logging.getLogger(__name__)


def complete_evaluation(config: Config) -> None:
    """Fills in the metric by corpus, and the callback that serves it; in place.

    Args:
        config: A run with ``do_eval`` whose ``eval_dataset`` is one of this package's.
    """
    if not config.get("metric"):
        config["metric"] = {"type": "MegatronPerplexity"}
    callbacks = config["callbacks"] = config.get("callbacks") or []
    if not any(callback.get("type") == "MegatronEvaluation" for callback in callbacks):
        callbacks.append({"type": "MegatronEvaluation"})


def warn_of_overlap(train: Config, evaluation: Config) -> None:
    """Warns of each pair of which the same documents are trained on and evaluated on.

    Args:
        train: The options of the training's data loader.
        evaluation: Those of the evaluation's.
    """
    for prefix in sorted(_prefixes(train) & _prefixes(evaluation)):
        parts = [(options.get("split"), options.get("split_part") or "train") for options in (train, evaluation)]
        if None in (parts[0][0], parts[1][0]) or parts[0] == parts[1]:
            logger.warning(
                "%s: the evaluation sees documents that are trained on; give both datasets the same split, and "
                "eval_dataset split_part: valid",
                prefix,
            )


def _prefixes(options: Config) -> set[str]:
    paths = options.get("dataset_dir") or []
    return {prefix_of(path) for path in ([paths] if isinstance(paths, str) else paths)}
