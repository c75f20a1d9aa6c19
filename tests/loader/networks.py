"""A network that MindSpore trains in no time, fed by the package's loader."""

from typing import Any


def model_of(vocab_size: int = 512) -> Any:
    """A ``Model`` that takes columns ``input_ids`` and ``labels`` and predicts each token from the one before it."""
    import mindspore
    from mindspore import nn, ops
    from mindspore.train import Model

    class Bigrams(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(vocab_size, vocab_size)

        def construct(self, input_ids: Any, labels: Any) -> Any:
            logits = self.table(input_ids)
            return ops.cross_entropy(logits.reshape((-1, vocab_size)), labels.reshape((-1,)))

    mindspore.set_seed(1)
    network = Bigrams()
    return Model(nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.1)))
