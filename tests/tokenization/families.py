"""Small tokenizers in the manner of the well-known ones, as folders that ``transformers`` would load."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_level(special: list[str], texts: Iterable[str], *, words: str | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    if words is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(words), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def gpt2(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    return _byte_level(["<|endoftext|>"], texts), {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>"}


def gpt2_with_prefix_space(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer, config = gpt2(texts)
    return tokenizer, config | {"add_prefix_space": True}


def qwen(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = _byte_level([], texts, words=_QWEN_WORDS)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokens = {
        str(id_): {
            "content": token.content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
            "special": True,
        }
        for id_, token in tokenizer.get_added_tokens_decoder().items()
    }  # fmt: skip
    first = tokenizer.get_vocab_size()
    # Two tokens that only the configuration knows.
    for number, content in enumerate(("<think>", "</think>")):
        tokens[str(first + number)] = {
            "content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False,
            "special": False,
        }  # fmt: skip
    return tokenizer, {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "added_tokens_decoder": tokens,
    }


def llama3(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = _byte_level([], texts, words=_QWEN_WORDS)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)]),
        ]
    )
    return tokenizer, {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|end_of_text|>",
    }


def llama2(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special, show_progress=False, max_token_length=8)
    tokenizer.train_from_iterator((word for text in texts for word in text.split()), trainer)
    # Trained as special tokens to fix their ids; in the real ones only three are.
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(state)), {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": {"__type": "AddedToken", "content": "<s>", "lstrip": False, "rstrip": False, "normalized": False},
        "eos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": False, "rstrip": False, "normalized": False},
        "unk_token": "<unk>",
        "add_eos_token": True,
        "legacy": False,
    }


def unigram(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    # <extra_id_0> is nowhere but in the configuration.
    return tokenizer, {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "additional_special_tokens": ["<extra_id_0>"],
    }


def bert(texts: Iterable[str]) -> tuple[Tokenizer, dict[str, Any]]:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_tokens([AddedToken("[MASK]", lstrip=True, normalized=False, special=True)])
    return tokenizer, {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]",
    }  # fmt: skip


Family = Callable[[Iterable[str]], tuple[Tokenizer, dict[str, Any]]]

FAMILIES: dict[str, Family] = {
    make.__name__: make for make in (gpt2, gpt2_with_prefix_space, qwen, llama3, llama2, unigram, bert)
}


def write_folder(folder: Path, family: str, texts: list[str]) -> Path:
    """Trains a tokenizer of a family and writes its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, config = FAMILIES[family](texts)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
