"""Megatron ``.bin/.idx`` data for MindSpore and MindFormers.

The names below are loaded on first use, so that importing the package costs nothing and never pulls in MindSpore.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mindformers_megatron._version import __version__

if TYPE_CHECKING:
    from mindformers_megatron.format.reader import IndexedDataset
    from mindformers_megatron.format.writer import IndexedDatasetWriter
    from mindformers_megatron.sampling.plan import SamplePlan

_HOME = {
    "IndexedDataset": "mindformers_megatron.format.reader",
    "IndexedDatasetWriter": "mindformers_megatron.format.writer",
    "SamplePlan": "mindformers_megatron.sampling.plan",
}

__all__ = ["IndexedDataset", "IndexedDatasetWriter", "SamplePlan", "__version__", "register"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register() -> None:
    """Registers both loaders in MindFormers. Imports MindSpore; may be called more than once."""
    import_module("mindformers_megatron.loader").register()
