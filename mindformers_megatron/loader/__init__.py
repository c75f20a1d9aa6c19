"""The training half: datasets, callbacks and launcher for MindSpore and MindFormers. Importing it registers them."""

try:
    import mindformers.dataset
    from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
except ImportError as error:
    raise ImportError(
        f"training needs mindspore and mindformers ({error}); pip install 'mindformers-megatron[train]'"
    ) from error

from mindformers_megatron.loader.callbacks import MegatronDataState
from mindformers_megatron.loader.cpu import CpuTrainOneStepCell
from mindformers_megatron.loader.evaluation import MegatronEvaluation, MegatronPerplexity
from mindformers_megatron.loader.loader import BlendedMegatronDataLoader, MegatronIndexedDataset
from mindformers_megatron.loader.log import join_mindformers_log
from mindformers_megatron.loader.mix_monitor import MegatronMixMonitor
from mindformers_megatron.loader.step_log import MegatronStepLog

__all__ = [
    "BlendedMegatronDataLoader",
    "CpuTrainOneStepCell",
    "MegatronDataState",
    "MegatronEvaluation",
    "MegatronIndexedDataset",
    "MegatronMixMonitor",
    "MegatronPerplexity",
    "MegatronStepLog",
    "register",
]


def register() -> None:
    """Registers everything in MindFormers, and adds the datasets to ``mindformers.dataset``. May be called twice."""
    for dataset in (BlendedMegatronDataLoader, MegatronIndexedDataset):
        MindFormerRegister.register_cls(dataset, MindFormerModuleType.DATASET_LOADER)
        setattr(mindformers.dataset, dataset.__name__, dataset)
    for callback in (MegatronDataState, MegatronEvaluation, MegatronMixMonitor, MegatronStepLog):
        MindFormerRegister.register_cls(callback, MindFormerModuleType.CALLBACK)
    MindFormerRegister.register_cls(MegatronPerplexity, MindFormerModuleType.METRIC)
    MindFormerRegister.register_cls(CpuTrainOneStepCell, MindFormerModuleType.WRAPPER)
    join_mindformers_log()


register()
