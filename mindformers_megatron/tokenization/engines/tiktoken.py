"""The engine of tiktoken files, and a fast one for byte-level BPE of other families."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mindformers_megatron.tokenization.engines import Encoded, IdArray, surround

if TYPE_CHECKING:
    from tiktoken import Encoding

_NO_IDS = np.empty(0, np.int32)
# What ByteLevel splits by where it does so itself: GPT-2's pattern.
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class TiktokenEngine:
    """The ``tiktoken`` library.

    Args:
        encoding: what encodes.
        special_tokens: those that a text may hold as such; others are text like any other.
        ids: the id of each rank, where they differ.
        normalize_nfc: bring texts to Unicode's form C before.
        before: ids put before each text.
        after: ids put behind each text.
    """

    name = "tiktoken"

    def __init__(
        self,
        encoding: "Encoding",
        special_tokens: Collection[str],
        *,
        ids: IdArray | None = None,
        normalize_nfc: bool = False,
        before: IdArray = _NO_IDS,
        after: IdArray = _NO_IDS,
    ) -> None:
        import tiktoken

        self.version: str = tiktoken.__version__
        self._encoding = encoding
        self._special_tokens = set(special_tokens)
        self._ids = ids
        self._normalize_nfc = normalize_nfc
        self._before, self._after = before, after

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        if self._normalize_nfc:
            import unicodedata

            texts = [unicodedata.normalize("NFC", text) for text in texts]
        arrays = [
            self._encoding.encode_to_numpy(text, allowed_special=self._special_tokens, disallowed_special=())
            for text in texts
        ]
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        ids = np.concatenate([_NO_IDS, *(array.view(np.int32) for array in arrays)])
        if self._ids is not None:
            ids = self._ids[ids]
        return surround(ids, lengths, self._before, self._after)


def load_json(data: bytes, *, split_special_tokens: bool, before: IdArray, after: IdArray) -> TiktokenEngine:
    """Loads the content of a ``tokenizer.json`` of byte-level BPE.

    tiktoken merges by the rank of what comes out, where Hugging Face's merges by pair. Whether that gives the same ids
    for a vocabulary is for a self-check to see.

    Raises:
        ValueError: it is none that tiktoken can do.
        LookupError: a part of it is missing.
    """
    import tiktoken

    state = json.loads(data)
    model = state["model"]
    if model["type"] != "BPE" or model.get("byte_fallback") or model.get("continuing_subword_prefix"):
        raise ValueError("its model is no byte-level BPE")
    normalizer = (state.get("normalizer") or {}).get("type")
    if normalizer not in (None, "NFC"):
        raise ValueError(f"it normalizes by {normalizer}")
    bytes_of = _byte_of_character()
    vocabulary: Mapping[str, int] = model["vocab"]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    ordered = dict.fromkeys([*(c for c in bytes_of if c in vocabulary), *(left + right for left, right in pairs)])
    ranks = {bytes(bytes_of[c] for c in token): rank for rank, token in enumerate(ordered)}
    ids = [vocabulary[token] for token in ordered]
    special: dict[str, int] = {}
    for token in state.get("added_tokens", []):
        if token["lstrip"] or token["rstrip"] or token["single_word"] or (normalizer and token["normalized"]):
            raise ValueError(f"its token {token['content']!r} is found in ways of its own")
        if not (split_special_tokens and token["special"]):
            special[token["content"]] = len(ids)
            ids.append(token["id"])
    if len(ranks) < 256 or len(ranks) != len(ordered):
        raise ValueError("its vocabulary lacks bytes")
    encoding = tiktoken.Encoding(
        "tokenizer.json", pat_str=_pattern(state.get("pre_tokenizer")), mergeable_ranks=ranks, special_tokens=special
    )
    return TiktokenEngine(
        encoding,
        special,
        ids=np.asarray(ids, np.int32),
        normalize_nfc=normalizer is not None,
        before=before,
        after=after,
    )


def _pattern(pre_tokenizer: dict[str, Any] | None) -> str:
    steps = [] if pre_tokenizer is None else pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    *splits, last = steps
    if last["type"] != "ByteLevel" or last.get("add_prefix_space"):
        raise ValueError("its pre-tokenizer is no plain ByteLevel")
    if not splits:
        return GPT2_PATTERN
    (split,) = splits
    if (split["type"], split["behavior"], split["invert"], last["use_regex"]) != ("Split", "Isolated", False, False):
        raise ValueError("its pre-tokenizer is no single split")
    pattern: str = split["pattern"]["Regex"]
    return pattern


def _byte_of_character() -> dict[str, int]:
    """The characters by which byte-level vocabularies write bytes, in the order of their use there."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}
