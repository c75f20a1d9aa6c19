"""How a tokenizer was made: ``training.json``."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from mindformers_megatron._version import __version__
from mindformers_megatron.format.metadata import SourceInfo
from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions
from mindformers_megatron.tokenization.training.sentencepiece_trainer import SentencePieceOptions
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer


def training_record(
    trained: TrainedTokenizer,
    options: ByteBpeOptions | SentencePieceOptions,
    *,
    inputs: Sequence[SourceInfo],
    reading: Mapping[str, Any],
    seen: Mapping[str, int],
) -> dict[str, Any]:
    """Everything that the same tokenizer can be made from again, as JSON values.

    Args:
        trained: what came out.
        options: what was asked.
        inputs: the files that were read, in order.
        reading: how texts were taken from them.
        seen: how much text there was.
    """
    special = options.special
    return {
        "model_type": getattr(options, "model_type", "byte-bpe"),
        "vocab_size": trained.vocab_size,
        "special_tokens": {role: {"token": t, "id": trained.id_of(t)} for role, t in trained.roles.items()},
        "user_defined_symbols": {symbol: trained.id_of(symbol) for symbol in special.user_defined},
        "options": {name: value for name, value in asdict(options).items() if name != "special"},
        "inputs": [asdict(source) for source in inputs],
        "reading": dict(reading),
        "seen": dict(seen),
        "findings": dict(trained.findings),
        "sha256": {
            "tokenizer.json": hashlib.sha256(trained.tokenizer.to_str(pretty=True).encode()).hexdigest(),
            **{name: hashlib.sha256(data).hexdigest() for name, data in trained.files.items()},
        },
        "library": trained.library,
        "library_version": trained.library_version,
        "program_version": __version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
