"""For MindFormers' own launcher, which knows nothing of this package: it copies this file and imports it.

    run_mindformer.py --register_path configs/register --config FILE      (or REGISTER_PATH=configs/register)

    train_dataset:
      data_loader:
        type: BlendedMegatronDataLoader
        auto_register: megatron_loader.BlendedMegatronDataLoader
    callbacks:
      - type: MegatronDataState
        auto_register: megatron_loader.MegatronDataState

`mfm train` needs none of this.
"""

from mindformers_megatron.loader import (
    BlendedMegatronDataLoader,
    CpuTrainOneStepCell,
    MegatronDataState,
    MegatronEvaluation,
    MegatronIndexedDataset,
    MegatronMixMonitor,
    MegatronPerplexity,
    MegatronStepLog,
)

__all__ = [
    "BlendedMegatronDataLoader",
    "CpuTrainOneStepCell",
    "MegatronDataState",
    "MegatronEvaluation",
    "MegatronIndexedDataset",
    "MegatronMixMonitor",
    "MegatronPerplexity",
    "MegatronStepLog",
]
