"""The masks reach MindFormers' Llama as they are meant: its loss is that of NumPy, from the same logits and mask."""

import numpy as np
import pytest

pytestmark = pytest.mark.train

LENGTH, VOCABULARY, EOD = 32, 128, 2
MODEL = {
    "batch_size": 2, "seq_length": LENGTH, "hidden_size": 32, "num_layers": 1, "num_heads": 2,
    "vocab_size": VOCABULARY, "multiple_of": 16, "pad_token_id": 0, "input_sliced_sig": True, "use_past": False,
    "compute_dtype": "float32", "layernorm_compute_type": "float32", "softmax_compute_type": "float32",
    "rotary_dtype": "float32", "param_init_type": "float32",
    "use_rope_slice": True, "use_flash_attention": False, "fused_rms_norm": False,
}  # fmt: skip


@pytest.fixture
def options(make_corpus):
    """Documents of about a third of a sample, each with EOD at its end, so that every mask hides something."""
    rng = np.random.default_rng(1)
    corpora = []
    for name in ("wiki", "code"):
        documents = [[*rng.integers(3, VOCABULARY, rng.integers(1, 24)).tolist(), EOD] for _ in range(40)]
        corpora.append(make_corpus(name, documents))
    return {"dataset_dir": corpora, "dataset_weights": [2, 1], "seq_length": LENGTH, "eod_id": EOD, "num_samples": 6}


def dataset_of(options, columns):
    """The training data as MindFormers builds them from a YAML."""
    from mindformers.dataset import build_dataset
    from mindformers.tools.register import MindFormerConfig

    import mindformers_megatron.loader  # noqa: F401 - registers

    dataset = {
        "data_loader": {"type": "BlendedMegatronDataLoader", **options},
        "input_columns": columns, "construct_args_key": columns, "num_parallel_workers": 1, "batch_size": 2,
        "python_multiprocessing": False, "drop_remainder": True, "repeat": 1, "numa_enable": False, "prefetch_size": 1,
        "seed": 0, "do_eval": False, "profile": False,
    }  # fmt: skip
    task = {"type": "CausalLanguageModelDataset", "dataset_config": dataset}
    return build_dataset(MindFormerConfig(**task))


def network_of(columns):
    """The model, wrapped as MindFormers' trainer wraps it: columns go to arguments by the names in the YAML."""
    import mindspore
    from mindformers.models.llama import LlamaConfig, LlamaForCausalLM
    from mindformers.wrapper.wrapper import DataOrderWrapperCell

    from mindformers_megatron.loader import cpu

    cpu.apply_dense_masks()
    mindspore.set_seed(3)
    return DataOrderWrapperCell(columns, LlamaForCausalLM(LlamaConfig(**MODEL)))


def cross_entropy(logits, labels, mask):
    """The mean over the inputs that the mask keeps, in float64: logits [B, L, V], labels and mask [B, L]."""
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    losses = np.log(np.exp(logits).sum(axis=-1)) - chosen
    return (losses * mask).sum() / mask.sum()


def meant_mask(kind, rows):
    """The mask that belongs to inputs, document by document."""
    mask = np.ones(rows.shape)
    for row, tokens in enumerate(rows.tolist()):
        # Documents end with EOD here, and nothing else is EOD.
        ends = [place for place, token in enumerate(tokens) if token == EOD]
        if kind in ("boundary", "eod"):
            mask[row, ends] = 0
        elif kind == "first_document" and ends:
            # A first document of one token has no label of its own: the one after it takes its place.
            first = 0 if ends[0] > 0 else 1
            stop = next((place for place in ends if place >= first and place > 0), LENGTH)
            mask[row, :first] = mask[row, stop:] = 0
    return mask


@pytest.mark.parametrize("kind", ["first_document", "boundary", "eod", "dense"])
def test_three_steps_have_the_loss_that_numpy_computes(options, kind):
    from mindspore import nn

    columns = ["input_ids", "labels", "loss_mask", "position_ids"]
    if kind == "dense":
        columns.append("attention_mask")
        options = {**options, "reset_attention_mask": True, "reset_position_ids": True, "loss_mask": "boundary"}
    else:
        options = {**options, "loss_mask": kind}
    dataset = dataset_of(options, columns)
    network = network_of(columns)
    step = nn.TrainOneStepCell(network, nn.AdamWeightDecay(network.trainable_params(), 0.01))
    seen = []
    for batch in dataset.create_tuple_iterator(num_epochs=1):
        network.set_train(False)
        logits = network(*batch)[0].asnumpy()
        step.set_train()
        loss = step(*batch).asnumpy().item()
        rows = {name: column.asnumpy() for name, column in zip(columns, batch, strict=True)}
        mask = meant_mask("boundary" if kind == "dense" else kind, rows["input_ids"])
        assert 0 < mask.sum() < mask.size
        assert loss == pytest.approx(cross_entropy(logits, rows["labels"], mask), rel=2e-6)
        seen.append(loss)
    assert len(set(seen)) == 3


@pytest.mark.parametrize("apart", [True, False])
def test_the_dense_mask_hides_other_documents_and_the_future_inside_the_model(options, apart):
    import mindspore

    columns = ["input_ids", "labels", "loss_mask", "position_ids", "attention_mask"]
    network = network_of(columns)
    network.set_train(False)
    batch = next(dataset_of({**options, "reset_attention_mask": apart}, columns).create_tuple_iterator(num_epochs=1))
    ids = batch[0].asnumpy()
    before = network(*batch)[0].asnumpy()

    def unchanged_by(*places):
        """Where the logits are the same when other tokens stand at ``places`` of the two rows."""
        other = ids.copy()
        for row, place in enumerate(places):
            other[row, place] = (other[row, place] + 17) % VOCABULARY
        after = network(mindspore.Tensor(other), *batch[1:])[0].asnumpy()
        return np.isclose(before, after, atol=1e-6).all(axis=-1)

    ends = [int(np.flatnonzero(row == EOD)[0]) + 1 for row in ids]
    for same, end in zip(unchanged_by(*(slice(end) for end in ends)), ends, strict=True):
        assert not same[:end].any() and same[end:].all() == apart
    assert unchanged_by(-1, -1)[:, :-1].all()
