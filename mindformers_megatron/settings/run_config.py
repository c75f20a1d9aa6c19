"""The settings of a run, before MindFormers sees them: what they leave out, and what would go wrong."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.settings.builtin_options import is_builtin
from mindformers_megatron.settings.evaluation import complete_evaluation, warn_of_overlap
from mindformers_megatron.settings.loader_options import LoaderOptions, clamp_workers
from mindformers_megatron.settings.model_match import check_model
from mindformers_megatron.settings.yaml_file import Config

LOADERS = ("BlendedMegatronDataLoader", "MegatronIndexedDataset")
DATASETS = ("train_dataset", "eval_dataset")
# MindFormers takes the modes by number or by name.
DATA_PARALLEL = (0, "data_parallel")
SEMI_AUTO = (1, 2, "semi_auto_parallel", "auto_parallel")


def complete(config: Config) -> None:
    """Fills in what a run with our datasets needs and the YAML leaves out; in place.

    - ``MegatronDataState`` among the callbacks.
    - ``input_columns``, ``construct_args_key``, ``drop_remainder``, and the task: MindFormers knows no default for them
      where datasets are not its own.
    - ``dataset_strategy``, where the parallel mode wants one.
    - Where the options are those of MindFormers' own loader: what MindFormers does for that one only.
    - ``shard`` of the data loader from ``shard_id`` and ``num_shards``, which MindFormers would pass over.
    - ``num_parallel_workers`` and ``prefetch_size`` of the data loader, which MindFormers takes from one level up, and
      ``runner_config.batch_size`` from ``micro_batch_size``.
    - The metric and the callback of an evaluation during training; see ``complete_evaluation``.
    """
    loaders = dict(our_loaders(config))
    for name, options in loaders.items():
        dataset = config[name]
        # The class is registered already; MindFormers would look for a folder to import it from.
        options.pop("auto_register", None)
        if options.get("num_shards") is not None and "shard" not in options:
            # MindFormers would pass its own numbers over those of the YAML.
            options["shard"] = [options.pop("shard_id", None), options.pop("num_shards")]
        for option in ("num_parallel_workers", "prefetch_size"):
            if option in options:
                dataset.setdefault(option, options[option])
        if "num_parallel_workers" in dataset:
            dataset["num_parallel_workers"] = clamp_workers(dataset["num_parallel_workers"])
        columns = dataset.setdefault("input_columns", list(loader_options(name, dataset).plan.columns))
        dataset.setdefault("construct_args_key", list(columns))
        dataset.setdefault("drop_remainder", True)
        config.setdefault(f"{name}_task", {"type": "CausalLanguageModelDataset"})
    if config.get("do_eval") and "eval_dataset" in loaders:
        complete_evaluation(config)
    if "train_dataset" in loaders:
        callbacks = config["callbacks"] = config.get("callbacks") or []
        if not any(callback.get("type") == "MegatronDataState" for callback in callbacks):
            callbacks.append({"type": "MegatronDataState"})
        micro_batch_size = loaders["train_dataset"].get("micro_batch_size")
        if micro_batch_size:
            runner = config["runner_config"] = config.get("runner_config") or {}
            runner.setdefault("batch_size", micro_batch_size)
        parallel = config["parallel"] = config.get("parallel") or {}
        builtin = is_builtin(loaders["train_dataset"])
        if builtin and loaders["train_dataset"]["config"].get("create_compressed_eod_mask"):
            # Said here, MindFormers turns the model's attention to it, and adds the offsets of a batch.
            loaders["train_dataset"]["create_compressed_eod_mask"] = True
        if parallel.get("parallel_mode") in SEMI_AUTO and (builtin or not parallel.get("full_batch", False)):
            columns = config["train_dataset"]["input_columns"]
            parallel.setdefault("dataset_strategy", dataset_strategy(columns, config.get("parallel_config") or {}))


def allow(config: Config, checks: Sequence[str]) -> None:
    """Adds to what the datasets allow; in place. See ``model_match.CHECKS``."""
    if checks:
        for _, options in our_loaders(config):
            # A bad value of the YAML's is left for LoaderOptions to name.
            listed = options.get("allow") or []
            options["allow"] = [*([listed] if isinstance(listed, str) else listed), *checks]


def check(config: Config) -> None:
    """Opens the corpora, so that what is wrong with them or with the options is one line, before anything is built.

    Raises:
        ConfigError: For a bad option, data that do not fit the model, or a setting that does not work on CPU.
        DataError: For a corpus that is missing or damaged.
    """
    if config.get("run_mode", "train") not in ("train", "finetune"):
        raise ConfigError(f"run_mode is {config['run_mode']!r}; mfm train runs train and finetune")
    runner = config.get("runner_config") or {}
    if runs_on_cpu(config) and runner.get("sink_mode", True):
        raise ConfigError(
            "runner_config.sink_mode must be False on CPU, where MindSpore would run too many steps with it"
        )
    for name, _ in our_loaders(config):
        options = loader_options(name, config[name])
        check_columns(name, config[name], options.plan.columns)
        if options.plan.shard_files is not None:
            # Which files are this rank's is known when MindFormers has said which rank it is: the loader checks them.
            continue
        with _named(name):
            plan = SamplePlan(options.plan)
            check_model(plan, config, options.allow)
            if name == "train_dataset":
                epochs = 1 if options.repeat_epochs else int(runner.get("epochs") or 1)
                plan.check_epochs(options.epoch_of(plan) * epochs)
    loaders = dict(our_loaders(config))
    if config.get("do_eval") and len(loaders) == len(DATASETS):
        warn_of_overlap(*(loaders[name] for name in DATASETS))


def check_columns(name: str, dataset: Config, given: Sequence[str]) -> None:
    """Raises ConfigError where a column is missing, or the network would be given columns under each other's names.

    Args:
        name: Of the dataset's section, for messages.
        dataset: The section.
        given: The columns that the loader gives.
    """
    columns = list(dataset.get("output_columns") or given)
    keys = dataset.get("construct_args_key")
    if keys is not None and list(keys) != columns:
        raise ConfigError(
            f"{name}.construct_args_key is {list(keys)}, the columns come as {columns}; expected the same names in the "
            "same order (leave it out, and it is filled in)"
        )
    missing = {"input_ids", "labels"} - set(columns)
    if missing:
        raise ConfigError(f"{name}.input_columns are {columns}; {', '.join(sorted(missing))} must be among them")


def runs_on_cpu(config: Config) -> bool:
    """Whether the run is one on CPU."""
    return str((config.get("context") or {}).get("device_target", "Ascend")).upper() == "CPU"


def holds_whole_model(config: Config) -> bool:
    """Whether each rank holds the whole model, and saves it in a file of its own."""
    parallel = config.get("parallel") or {}
    alone = not config.get("use_parallel") or parallel.get("parallel_mode") in DATA_PARALLEL
    return alone and not config.get("checkpoint") and not config.get("auto_trans_ckpt")


def our_loaders(config: Config) -> Iterator[tuple[str, Config]]:
    """The datasets that this package loads: (section, options of its ``data_loader``)."""
    for name in DATASETS:
        options = (config.get(name) or {}).get("data_loader") or {}
        if options.get("type") in LOADERS:
            yield name, options


def loader_options(name: str, dataset: Config) -> LoaderOptions:
    """The options that MindFormers will pass on from a dataset's section.

    Raises:
        ConfigError: One line, for a bad option.
    """
    options = {name: value for name, value in dataset["data_loader"].items() if name != "type"}
    if dataset.get("input_columns"):
        options["column_names"] = list(dataset["input_columns"])
    with _named(name):
        return LoaderOptions.from_options(options)


def dataset_strategy(columns: Sequence[str], parallel: Config) -> list[list[int]]:
    """How MindFormers cuts each column among ranks: rows by data_parallel, nothing else."""
    dp = int(parallel.get("data_parallel") or 1)
    return [[dp, 1, 1, 1] if column == "attention_mask" else [dp, 1] for column in columns]


@contextmanager
def _named(dataset: str) -> Iterator[None]:
    try:
        yield
    except (ConfigError, DataError) as error:
        raise type(error)(f"{dataset}.data_loader: {error}") from None
