"""A BPE cut to a smaller vocabulary.

BPE learns its merges in order, and what it learns first does not depend on how many are to follow. So the first merges
of a large tokenizer are the small tokenizer that the same texts would have given, and one training is enough to compare
sizes.
"""

from typing import Any

from mindformers_megatron.errors import ConfigError


def shortened(state: dict[str, Any], vocab_size: int, name: str) -> dict[str, Any]:
    """Takes the last merges, and what they make, from a tokenizer. Ids keep their values and so have gaps.

    Args:
        state: the content of a ``tokenizer.json``.
        vocab_size: ids that are left, special tokens included.
        name: of the tokenizer, for messages.

    Raises:
        ConfigError: it is no BPE, has no more ids than that, or has more before its first merge.
    """
    model = state["model"]
    if model.get("type") != "BPE":
        raise ConfigError(f"{name}: only a BPE can be cut to {vocab_size} ids; this is {model.get('type')}")
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    added = {token["content"] for token in state.get("added_tokens", [])}
    made = {left + right for left, right in merges} - added
    basis = (model["vocab"].keys() | added) - made
    size = len(model["vocab"].keys() | added)
    if not len(basis) <= vocab_size < size:
        raise ConfigError(
            f"{name}: cannot be cut to {vocab_size} ids: it has {size}, of which {len(basis)} come before any merge"
        )
    kept = set(basis)
    for left, right in merges:
        if len(kept) == vocab_size:
            break
        kept.add(left + right)
    # Not simply the first ones: what has two ways to be made may be made, in one of them, of what is learned later.
    left_over = [merge for merge in merges if {*merge, "".join(merge)} <= kept]
    vocabulary = {token: id_ for token, id_ in model["vocab"].items() if token in kept}
    return {**state, "model": {**model, "vocab": vocabulary, "merges": left_over}}
