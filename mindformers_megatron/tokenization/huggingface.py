"""Loading tokenizers of the ``tokenizers`` library from local files, as ``transformers`` would.

A ``tokenizer.json`` does not say everything: ``transformers``, and through it Megatron's tool, adds the special tokens
that only ``tokenizer_config.json`` names, corrects the prefix space, and rebuilds the post-processor of some families.
The same is done here, so that ids are the same, without ``transformers`` and without running code from the folder.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import ConfigError, DataError

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
GENERATION_FILE = "generation_config.json"

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# Families whose classes in transformers replace the post-processor, and whether they add the beginning-of-text token by
# default.
_ADDS_BOS = {"Llama": True, "CodeLlama": True, "Gemma": True, "Cohere": True, "GPTNeoX": False}
GPT2_EOD = "<|endoftext|>"
_BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, slots=True)
class HuggingFaceFiles:
    """A loaded tokenizer and what its folder says about it.

    Attributes:
        tokenizer: a ``tokenizers.Tokenizer``, without truncation and padding.
        config: the folder's configuration, empty if there is none.
        generation: the folder's generation configuration, likewise.
        files: those that decide which ids a text gets.
        is_as_saved: the first of them is a ``tokenizer.json`` that gives the same ids by itself.
    """

    tokenizer: Any
    config: dict[str, Any]
    generation: dict[str, Any]
    files: tuple[Path, ...]
    is_as_saved: bool = False

    def json(self) -> bytes:
        """The content of a ``tokenizer.json`` that gives the same ids."""
        if self.is_as_saved:
            return self.files[0].read_bytes()
        text: str = self.tokenizer.to_str()
        return text.encode()


def load_tokenizer_json(path: Path) -> HuggingFaceFiles:
    """Loads a ``tokenizer.json``, with the configuration that lies beside it.

    Raises:
        DataError: a file is damaged, or is not what its name says.
        ConfigError: the tokenizer gives other ids each time.
    """
    import tokenizers

    folder = path.parent
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"{path}: is no tokenizer.json that tokenizers {tokenizers.__version__} reads: {reason}"
        ) from None
    if getattr(tokenizer.model, "dropout", None):
        raise ConfigError(
            f"{path}: its BPE dropout is {tokenizer.model.dropout}, so that ids are random; set it to null"
        )
    beside = [folder / name for name in (CONFIG_FILE, SPECIAL_TOKENS_FILE, GENERATION_FILE)]
    config, special_tokens, generation = (_read_object(file) for file in beside)
    if "added_tokens_decoder" not in config:
        config |= special_tokens
    tokenizer.no_truncation()
    tokenizer.no_padding()
    changed = _apply_config(tokenizer, config, path)
    files = (path, *(file for file in beside[:2] if file.exists())) if changed else (path,)
    return HuggingFaceFiles(tokenizer, config, generation, files, is_as_saved=not changed)


def load_gpt2(vocab_file: Path, merge_file: Path) -> HuggingFaceFiles:
    """Builds GPT-2's byte-level BPE from its two files.

    Raises:
        DataError: they are no vocabulary and merges.
    """
    import tokenizers

    try:
        model = tokenizers.models.BPE.from_file(str(vocab_file), str(merge_file))
    except Exception as error:  # the library raises nothing more precise
        reason = str(error).partition("\n")[0]
        raise DataError(f"{vocab_file} and {merge_file}: are no BPE vocabulary and merges: {reason}") from None
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    config = {}
    if tokenizer.token_to_id(GPT2_EOD) is not None:
        tokenizer.add_special_tokens([GPT2_EOD])
        config["eos_token"] = GPT2_EOD
    return HuggingFaceFiles(tokenizer, config, {}, (vocab_file, merge_file))


def load_bert(vocab_file: Path, *, lowercase: bool) -> HuggingFaceFiles:
    """Builds BERT's WordPiece from its vocabulary.

    Args:
        vocab_file: a token a line.
        lowercase: bring texts to lower case, without accents, before.

    Raises:
        DataError: it is no vocabulary of BERT's.
    """
    import tokenizers

    try:
        vocabulary = {token: id_ for id_, token in enumerate(vocab_file.read_text(encoding="utf-8").splitlines())}
    except (OSError, ValueError) as error:
        raise DataError(f"{vocab_file}: cannot be read: {error}") from None
    special = [token for token in _BERT_SPECIAL if token in vocabulary]
    if not {"[UNK]", "[SEP]"} <= set(special):
        raise DataError(f"{vocab_file}: is no vocabulary of BERT's: it has no [UNK] or no [SEP]")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    return HuggingFaceFiles(tokenizer, {"sep_token": "[SEP]"}, {}, (vocab_file,))


def _apply_config(tokenizer: Any, config: dict[str, Any], path: Path) -> bool:
    """Changes a tokenizer as ``transformers`` would; tells whether there was anything to change."""
    import tokenizers

    changed = tokenizer.encode_special_tokens = bool(config.get("split_special_tokens", False))
    try:
        known = {int(id_): _as_added_token(token) for id_, token in config.get("added_tokens_decoder", {}).items()}
        named = [token for key in _NAMED_TOKENS if (token := config.get(key))]
        named += config.get("additional_special_tokens") or []
        special = {content_of(token) for token in named}
        # Adding a token that is there already changes nothing, or its flags, as in transformers.
        present = {repr(token) for token in tokenizer.get_added_tokens_decoder().values()}
        added = [known[id_] for id_ in sorted(known) if repr(known[id_]) not in present]
        for token in added:
            token.special = token.special or token.content in special
        tokenizer.add_tokens(added)
        contents = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        missing = {content_of(token): token for token in named if content_of(token) not in contents}
        tokenizer.add_tokens([_as_added_token(token, special=True) for token in missing.values()])
        changed |= bool(added or missing)
        pre_tokenizer, prefix_space = tokenizer.pre_tokenizer, bool(config.get("add_prefix_space", False))
        if isinstance(pre_tokenizer, tokenizers.pre_tokenizers.ByteLevel):
            changed |= pre_tokenizer.add_prefix_space != prefix_space
            pre_tokenizer.add_prefix_space = prefix_space
        return _replace_post_processor(tokenizer, config) or changed
    except (TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path.parent / CONFIG_FILE}: its tokens are not as transformers writes them: {error}"
        ) from None


def _replace_post_processor(tokenizer: Any, config: dict[str, Any]) -> bool:
    import tokenizers

    family = str(config.get("tokenizer_class", "")).removesuffix("Fast").removesuffix("Tokenizer")
    if family not in _ADDS_BOS:
        return False
    template, special = ["$A"], []
    for key, default, place in (("bos", _ADDS_BOS[family], 0), ("eos", False, 2)):
        if config.get(f"add_{key}_token", default):
            token = content_of(config.get(f"{key}_token") or "")
            id_ = tokenizer.token_to_id(token)
            if id_ is None:
                raise ValueError(f"add_{key}_token is set, but there is no {key}_token")
            template.insert(place, token)
            special.append((token, id_))
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=special)
    return True


def content_of(token: Any) -> str:
    """The text of a token in a configuration, which is a string, or an object with flags."""
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise TypeError(f"{token!r} is no token")
    return content


def _as_added_token(token: Any, *, special: bool | None = None) -> Any:
    import tokenizers

    flags = (
        {key: value for key, value in token.items() if key != "__type"}
        if isinstance(token, dict)
        else {"content": token}
    )
    if special is not None:
        flags["special"] = special
    return tokenizers.AddedToken(**flags)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: is no readable JSON: {error}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds no JSON object")
    return content
