"""Batches that the loader reads as such, instead of rows that MindSpore puts together."""

from typing import Any

from mindspore.dataset.engine.datasets import BatchDataset


class WholeBatches(BatchDataset):  # type: ignore[misc]
    """``loader.batch(n)``: to whoever looks at the pipeline MindSpore's own batches, but without its work.

    MindSpore calls Python for every row, hands it from thread to thread and copies it into a batch, which takes several
    times what reading it does. So where rows are read, there is no such step: the loader gives a batch for each call.
    What MindSpore only wants to know of the pipeline, it asks a step of its own.
    """

    def parse(self, children: Any = None) -> Any:
        """Called by MindSpore for its own node of the pipeline."""
        (loader,) = self.children
        return children[0] if loader.gives_batches else super().parse(children)
