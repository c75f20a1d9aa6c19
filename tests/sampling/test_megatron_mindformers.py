"""The same arrays and samples as MindFormers' own GPTDataset and blend, over drawn settings.

MindFormers carries Megatron's code of an earlier day: its blend is 0.5 % longer than what is asked, the corpora of it
are built for that length, and it takes pad and EOD from its configuration.
"""

import importlib
import math
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindformers_helper import compiled_mindformers
from pairs import write_corpus

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.sampling.boundaries import eod_marks
from mindformers_megatron.sampling.columns import ColumnOptions
from mindformers_megatron.sampling.layout import Layout, ReadTokens
from mindformers_megatron.sampling.megatron_blend import MegatronBlend
from mindformers_megatron.sampling.megatron_order import MegatronOrder
from mindformers_megatron.sampling.pieces import Part, RowTokens
from mindformers_megatron.sampling.splits import parse_split, split_range

pytestmark = pytest.mark.train

SPLITS = ("train", "valid", "test")
EOD = 0
few = settings(max_examples=40)


@pytest.fixture(scope="module")
def mindformers(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return compiled_mindformers(tmp_path_factory.mktemp("helpers"))


def build_theirs(prefixes: list[str], weights: list[float] | None, sizes: list[int | None], options: dict) -> list[Any]:
    gpt_dataset = importlib.import_module("mindformers.dataset.blended_datasets.gpt_dataset")
    builder = importlib.import_module("mindformers.dataset.blended_datasets.blended_megatron_dataset_builder")
    config = gpt_dataset.GPTDatasetConfig(blend=(prefixes, weights), eod=EOD, pad=-1, **options)
    return builder.BlendedMegatronDatasetBuilder(gpt_dataset.GPTDataset, sizes, lambda: True, config).build()  # type: ignore[no-any-return]


def draw_corpus(data: st.DataObject, prefix: Path) -> str:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32), label="tokens"))
    documents = data.draw(st.integers(10, 80), label="documents")
    longest = data.draw(st.sampled_from([4, 30, 200]), label="longest document")
    dtype = data.draw(st.sampled_from([np.uint16, np.int32]), label="dtype")
    return write_corpus(
        prefix, [random.integers(0, 12, random.integers(1, longest + 1)).tolist() for _ in range(documents)], dtype
    )


def draw_options(data: st.DataObject, cache: str) -> dict[str, Any]:
    drop_last = data.draw(st.booleans(), label="drop last")
    # A mask that MindFormers keeps for all samples would be spoilt by the first padded one.
    masks = {
        name: data.draw(st.booleans(), label=name) if drop_last else True
        for name in ("reset_position_ids", "reset_attention_mask", "eod_mask_loss")
    }
    return {
        "random_seed": data.draw(st.integers(0, 2**32 - 1), label="seed"),
        "sequence_length": data.draw(st.sampled_from([2, 7, 16, 33]), label="sequence length"),
        "split": data.draw(st.sampled_from(["1,0,0", "90,10,0", "70,20,10", "0.5,0.25,0.25"]), label="split"),
        "add_extra_token_to_sequence": data.draw(st.booleans(), label="extra token"),
        "drop_last_partial_validation_sequence": drop_last,
        "path_to_cache": cache,
        **masks,
    }


def build_ours(dataset: IndexedDataset, which: Any, num_samples: int | None, options: dict) -> MegatronOrder:
    return MegatronOrder.build(
        dataset.index,
        *split_range(parse_split(options["split"]), which, dataset.num_sequences),
        num_samples=num_samples,
        seq_length=options["sequence_length"],
        seed=options["random_seed"],
        extra_token=options["add_extra_token_to_sequence"],
        drop_last=options["drop_last_partial_validation_sequence"] or which != "valid",
    )


def read_ours(dataset: IndexedDataset, order: MegatronOrder, options: dict) -> dict[str, np.ndarray]:
    length = options["sequence_length"]
    rows = np.arange(len(order), dtype=np.int64)
    pieces = order.pieces(rows)
    # Behind a padded sample's end stand zeros, as in MindFormers, but they are no EOD.
    tokens = RowTokens([Part(dataset, pieces, rows)], rows.size, length + 1, pad_id=0)
    read = tokens.read(0, rows.size)
    marks = eod_marks(read, EOD, tokens.filled)
    layout = Layout(
        ReadTokens(read),
        marks,
        marks,
        pieces.counted,
        ColumnOptions(
            names=("input_ids", "labels", "loss_mask", "position_ids", "attention_mask"),
            loss_mask="eod" if options["eod_mask_loss"] else "none",
            reset_position_ids=options["reset_position_ids"],
            reset_attention_mask=options["reset_attention_mask"],
            eod_id=EOD,
        ),
        length,
    )
    return layout.columns()


def same_arrays(mine: MegatronOrder, theirs: Any) -> None:
    for name in ("document_index", "sample_index", "shuffle_index"):
        assert np.array_equal(mine.arrays[name], getattr(theirs, name)), name


def possible(dataset: IndexedDataset, which: str, options: dict) -> bool:
    """Whether MindFormers gets through: neither hangs on an empty part nor ends with nothing."""
    try:
        begin, end = split_range(parse_split(options["split"]), which, dataset.num_sequences)  # type: ignore[arg-type]
    except ConfigError:
        return False
    tokens = int(dataset.index.sequence_lengths[begin:end].sum())
    return tokens > options["sequence_length"] + 1


@few
@given(data=st.data())
def test_one_corpus(mindformers: ModuleType, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prefix = draw_corpus(data, Path(folder) / "corpus")
        options = draw_options(data, f"{folder}/cache")
        dataset = IndexedDataset(prefix)
        if not all(possible(dataset, which, options) for which in used_parts(options)):
            return
        # Tenths of an epoch: a last epoch of less than eight is shuffled apart.
        tenths = [data.draw(st.sampled_from([13, 25, 38, 39, 46, 5, 10, None]), label=which) for which in SPLITS]
        sizes = [
            tenth and int(tenth / 10 * share * dataset.num_tokens / options["sequence_length"])
            for tenth, share in zip(tenths, parse_split(options["split"]), strict=True)
        ]
        theirs = build_theirs([prefix], None, sizes, options)
        for which, size, dataset_of_theirs in zip(SPLITS, sizes, theirs, strict=True):
            if dataset_of_theirs is None:
                continue
            order = build_ours(dataset, which, size, options)
            same_arrays(order, dataset_of_theirs)
            columns = read_ours(dataset, order, options)
            for row in range(0, len(order), max(1, len(order) // 25)):
                inputs, labels, loss_mask, positions, blocked = dataset_of_theirs[row]
                assert np.array_equal(columns["input_ids"][row][: inputs.size], inputs)
                assert np.array_equal(columns["labels"][row], labels)
                assert np.array_equal(columns["position_ids"][row], positions)
                assert np.array_equal(columns["attention_mask"][row], blocked)
                # Where they would train on nothing, ours keeps the loss.
                assert not loss_mask.any() or np.array_equal(columns["loss_mask"][row], loss_mask)


@few
@given(data=st.data())
def test_blends(mindformers: ModuleType, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prefixes = [draw_corpus(data, Path(folder) / f"corpus{place}") for place in range(data.draw(st.integers(2, 5)))]
        options = draw_options(data, f"{folder}/cache")
        datasets = [IndexedDataset(prefix) for prefix in prefixes]
        if not all(possible(dataset, which, options) for which in used_parts(options) for dataset in datasets):
            return
        weights = data.draw(
            st.one_of(
                st.none(),
                st.lists(
                    st.sampled_from([0.1, 0.2, 0.3, 0.5, 1.0, 7.0]), min_size=len(prefixes), max_size=len(prefixes)
                ),
            ),
            label="weights",
        )
        smallest = 1 if weights is not None else None
        sizes = [data.draw(st.sampled_from([900, 200, 60, smallest]), label=which) for which in SPLITS]
        try:
            theirs = build_theirs(prefixes, weights, sizes, options)
        except IndexError:
            return
        for which, size, blend_of_theirs in zip(SPLITS, sizes, theirs, strict=True):
            if blend_of_theirs is None:
                continue
            built: list[int | None] = [None] * len(prefixes)
            if weights is not None:
                shares = (np.array(weights) / np.sum(np.array(weights))).tolist()
                built = [math.ceil(size * share * 1.005) for share in shares]
            orders = [
                build_ours(dataset, which, number, options) for dataset, number in zip(datasets, built, strict=True)
            ]
            for order, dataset_of_theirs in zip(orders, blend_of_theirs.datasets, strict=True):
                same_arrays(order, dataset_of_theirs)
            available = [len(order) for order in orders]

            def blended(size: int = size, built: list[int | None] = built, available: list[int] = available):
                if weights is None:
                    return MegatronBlend.of_sizes(available, size)
                return MegatronBlend.of_weights(weights, [number or 0 for number in built], available)

            taken = np.bincount(blend_of_theirs.dataset_index, minlength=len(orders))
            if (taken > available).any():
                # Theirs finds out when it comes to read them.
                with pytest.raises(ConfigError, match=r"which has \d+; raise surplus"):
                    blended()
                continue
            blend = blended()
            assert np.array_equal(blend.dataset_index, blend_of_theirs.dataset_index)
            assert np.array_equal(blend.dataset_sample_index, blend_of_theirs.dataset_sample_index)


def used_parts(options: dict) -> list[str]:
    return [which for which, share in zip(SPLITS, parse_split(options["split"]), strict=True) if share]
