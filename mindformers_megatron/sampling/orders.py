"""The orders of sampling, behind one interface."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import DataError
from mindformers_megatron.sampling.corpora import Corpus
from mindformers_megatron.sampling.document_order import DocumentOrder
from mindformers_megatron.sampling.pieces import Pieces
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.stream_order import StreamOrder


class Order(Protocol):
    """Which tokens are the k-th sample of one corpus: a pure function of k."""

    @property
    def epoch_length(self) -> int:
        """Samples in one epoch of the corpus."""

    @property
    def num_tokens(self) -> int:
        """Tokens that count in the loss in one epoch."""

    def pieces(self, cursors: npt.NDArray[np.int64]) -> Pieces:
        """What the k-th samples are made from: int64[B], any k ≥ 0, in any order."""

    def containing(self, begin: int, end: int, epochs: int) -> npt.NDArray[np.int64]:
        """The cursors, ascending, of the samples of the first ``epochs`` epochs that hold a token of [begin, end)."""


def order_of(corpus: Corpus, spec: PlanSpec) -> Order:
    """Builds the order of one corpus.

    Raises:
        DataError: The corpus gives no sample under this order.
    """
    if spec.order == "document":
        order = DocumentOrder.build(
            corpus.dataset.index,
            *corpus.documents,
            seq_length=spec.seq_length,
            seed=spec.seed,
            name=corpus.name,
            shuffle=spec.shuffle != "false",
        )
        if not order.epoch_length:
            raise DataError(
                f"{corpus.dataset.prefix}: no document of {corpus.name} has two tokens or more, so order: document "
                "finds nothing to predict in it"
            )
        return order
    return StreamOrder(
        begin=corpus.begin,
        num_tokens=corpus.num_tokens,
        seq_length=spec.seq_length,
        stride=spec.stride or spec.seq_length,
        seed=spec.seed,
        name=corpus.name,
        shuffle=spec.shuffle,
        block=spec.shuffle_block_size,
        offsets=spec.epoch_offsets,
    )
