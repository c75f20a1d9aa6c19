"""A tokenizer small enough to be trained on the spot."""

import json
from collections.abc import Iterable
from pathlib import Path

from mindformers_megatron.format.atomic import write_atomically

END_OF_TEXT = "<|endoftext|>"


def train_tokenizer(texts: Iterable[str], vocab_size: int, folder: Path) -> int:
    """Trains a byte-level BPE and writes it to ``folder`` as ``transformers`` would.

    Args:
        texts: what it learns from.
        vocab_size: ids wanted: the 256 bytes, ``<|endoftext|>``, and as many merges as fit.
        folder: made if it is not there.

    Returns:
        Ids it has: ``vocab_size``, or fewer where the texts hold no more pairs to merge.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        # All bytes, seen or not: then there is no text that it cannot encode.
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "tokenizer.json", tokenizer.to_str(pretty=True).encode())
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
    }
    write_atomically(folder / "tokenizer_config.json", json.dumps(config, indent=2).encode())
    return int(tokenizer.get_vocab_size())
