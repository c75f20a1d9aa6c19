"""What a plan is known by when a run goes on: everything about it that no resumed run may do otherwise."""

from collections.abc import Sequence
from typing import Any

from mindformers_megatron.sampling.spec import PlanSpec


def identity_of(spec: PlanSpec, names: Sequence[str]) -> dict[str, Any]:
    """The options of a plan that determine its samples, as plain values; weights and skip lists may change.

    Args:
        spec: What the plan is asked to be.
        names: Its corpora.
    """
    identity: dict[str, Any] = {
        "order": spec.order,
        "seq_length": spec.seq_length,
        "seed": spec.seed,
        "shuffle": spec.shuffle,
        "split": spec.split if spec.split is None or isinstance(spec.split, str) else list(spec.split),
        "split_part": spec.split_part,
    }
    if spec.order == "megatron":
        # Every sample of Megatron's order depends on all of these: no change can be lived with.
        identity |= {
            "corpora": list(names),
            "dataset_weights": None if spec.dataset_weights is None else list(spec.dataset_weights),
            "num_samples": spec.num_samples,
            "add_extra_token_to_sequence": spec.add_extra_token_to_sequence,
            "drop_last_partial_validation_sequence": spec.drop_last_partial_validation_sequence,
            "blend_sizes": spec.blend_sizes,
            "repeat_after": spec.repeat_after,
        }
    if spec.order == "stream":
        identity |= {"stride": spec.stride or spec.seq_length, "epoch_offsets": spec.epoch_offsets}
    if spec.dataset_ranges is not None:
        identity["dataset_ranges"] = [list(stretch) for stretch in spec.dataset_ranges]
    if spec.shuffle == "block":
        identity["shuffle_block_size"] = spec.shuffle_block_size
    return identity
