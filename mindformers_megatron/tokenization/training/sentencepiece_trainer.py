"""SentencePiece models, BPE or unigram (Kudo 2018), trained by the ``sentencepiece`` library.

The same texts, options and number of threads give the same model. The library holds all sentences in memory, unless
``input_sentence_size`` asks for a sample.
"""

import io
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.training.sentencepiece_json import to_tokenizer
from mindformers_megatron.tokenization.training.sentencepiece_model import parse_model
from mindformers_megatron.tokenization.training.special_tokens import ROLES, Role, SpecialTokens
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer

# Options of spm_train that are passed on as they are, with their types. Those left out concern files and formats that
# are dealt with here, or make models that a tokenizer.json cannot express.
TRAINER_OPTIONS: dict[str, type] = {
    "character_coverage": float,
    "byte_fallback": bool,
    "split_digits": bool,
    "normalization_rule_name": str,
    "remove_extra_whitespaces": bool,
    "add_dummy_prefix": bool,
    "allow_whitespace_only_pieces": bool,
    "split_by_whitespace": bool,
    "split_by_unicode_script": bool,
    "split_by_number": bool,
    "required_chars": str,
    "max_sentencepiece_length": int,
    "max_sentence_length": int,
    "input_sentence_size": int,
    "shuffle_input_sentence": bool,
    "seed_sentencepiece_size": int,
    "shrinking_factor": float,
    "num_sub_iterations": int,
    "num_threads": int,
    "hard_vocab_limit": bool,
    "train_extremely_large_corpus": bool,
}
_DEFAULT_SENTENCE_BYTES = 4192
_DEFAULT_TOKENS: dict[Role, str] = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
_DEFAULT_IDS: dict[Role, int] = {"pad": -1, "unk": 0, "bos": 1, "eos": 2}
_CHECKED_TEXTS = 200
_CHECKED_CHARACTERS = 20_000


def special_pieces(
    tokens: Mapping[Role, str], ids: Mapping[Role, int], user_defined: tuple[str, ...] = ()
) -> SpecialTokens:
    """Special tokens as ``spm_train`` takes them.

    Args:
        tokens: those that are to be called otherwise than ``<pad>``, ``<unk>``, ``<s>`` and ``</s>``, and the one that
            ends a document, if it is not ``eos``.
        ids: those that are to be others than -1, 0, 1 and 2. A negative one means that there is no such token.
        user_defined: see ``SpecialTokens``.
    """
    wanted = {**_DEFAULT_IDS, **ids}
    named = {**_DEFAULT_TOKENS, **tokens}
    return SpecialTokens(
        {role: token for role, token in named.items() if wanted.get(role, 0) >= 0},
        {role: id_ for role, id_ in wanted.items() if id_ >= 0},
        user_defined,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePieceOptions:
    """What is asked of the model.

    Attributes:
        vocab_size: pieces wanted, all of them.
        special: from ``special_pieces``; ``unk`` at least. An ``eod`` of its own becomes a control symbol, whose id is
            the lowest that is free.
        model_type: the method.
        control_symbols: pieces that no text has.
        trainer: options of ``spm_train``, among ``TRAINER_OPTIONS``; its own defaults hold for the others.
    """

    vocab_size: int
    special: SpecialTokens
    model_type: Literal["bpe", "unigram"] = "unigram"
    control_symbols: tuple[str, ...] = ()
    trainer: Mapping[str, bool | int | float | str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vocab_size < 1:
            raise ConfigError(f"vocab_size is {self.vocab_size}; give 1 or more")
        if "unk" not in self.special.tokens:
            raise ConfigError("SentencePiece needs an unknown token; give --unk-id 0 or more")
        self.special.place(self.vocab_size)
        coverage = self.trainer.get("character_coverage", 1.0)
        if not 0.98 <= float(coverage) <= 1:
            raise ConfigError(f"character_coverage is {coverage}; SentencePiece takes 0.98 to 1.0")

    @property
    def all_control_symbols(self) -> list[str]:
        """Those asked for, and the token that ends a document if nothing else is that."""
        others = {self.special.tokens[role] for role in ROLES if role != "eod" and role in self.special.tokens}
        eod = self.special.tokens.get("eod")
        own = [] if eod is None or eod in others or eod in self.control_symbols else [eod]
        return [*self.control_symbols, *own]


def train_sentencepiece(texts: Iterable[str], options: SentencePieceOptions) -> TrainedTokenizer:
    """Trains a model, and makes a ``tokenizer.json`` of it that is compared with it on texts of the corpus.

    A line of a text is a sentence. Lines longer than ``max_sentence_length``, which the library would leave out without
    a word, are cut, at spaces if there are any.

    Args:
        texts: iterated over once.
        options: what is asked.

    Raises:
        ConfigError: the library is missing, or refuses the options for these texts.
        DataError: there is no text.
    """
    try:
        import sentencepiece
    except ImportError:
        raise ConfigError(
            "training a SentencePiece model needs sentencepiece; pip install 'mindformers-megatron[tokenizer]'"
        ) from None
    sample = _Sample(texts)
    size = int(options.trainer.get("max_sentence_length", _DEFAULT_SENTENCE_BYTES))
    written = io.BytesIO()
    # For sampling sentences; the library draws from the time of day otherwise.
    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences(sample, size),
            model_writer=written,
            vocab_size=options.vocab_size,
            model_type=options.model_type,
            user_defined_symbols=list(options.special.user_defined),
            control_symbols=options.all_control_symbols,
            minloglevel=2,
            **_flags(options),
        )
    except (RuntimeError, ValueError, OSError) as error:
        if sample.failure is not None:
            raise sample.failure from None
        if not sample.texts:
            raise DataError("there is no text to train on") from None
        raise ConfigError(f"SentencePiece refuses: {_reason(error)}") from None
    data = written.getvalue()
    model = parse_model(data)
    tokenizer = to_tokenizer(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    findings, warnings = _compare(tokenizer, processor, sample.texts)
    vocabulary = "".join(f"{piece.text}\t{piece.score:g}\n" for piece in model.pieces)
    return TrainedTokenizer(
        tokenizer=tokenizer,
        roles=options.special.tokens,
        library="sentencepiece",
        library_version=sentencepiece.__version__,
        files={".model": data, ".vocab": vocabulary.encode()},
        findings=findings,
        warnings=warnings,
    )


def sentences(texts: Iterable[str], max_bytes: int) -> Iterator[str]:
    """Yields the lines of texts that are not blank, those of more than ``max_bytes`` (in UTF-8) in pieces."""
    for text in texts:
        for line in text.split("\n"):
            if line and not line.isspace():
                yield from _cut(line, max_bytes)


def _cut(line: str, max_bytes: int) -> Iterator[str]:
    if len(line) * 4 <= max_bytes or len(data := line.encode()) <= max_bytes:
        yield line
        return
    start = 0
    while len(data) - start > max_bytes:
        stop = data.rfind(b" ", start + max_bytes // 2, start + max_bytes)
        if stop < 0:
            stop = start + max_bytes
            # Not between the bytes of a character.
            while data[stop] & 0xC0 == 0x80:
                stop -= 1
        yield data[start:stop].decode()
        start = stop
    yield data[start:].decode()


class _Sample:
    """Passes texts through and keeps some of them, from all over, to compare tokenizers on."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts: list[str] = []
        self.failure: Exception | None = None
        self._all = texts

    def __iter__(self) -> Iterator[str]:
        draw = random.Random(0)
        try:
            for number, text in enumerate(self._all):
                # Reservoir sampling: each text is in the sample with the same chance.
                place = number if number < _CHECKED_TEXTS else draw.randrange(number + 1)
                if place < _CHECKED_TEXTS:
                    self.texts[place : place + 1] = [text[:_CHECKED_CHARACTERS]]
                yield text
        except Exception as error:
            # The library makes a text of it, with a traceback.
            self.failure = error
            raise


def _flags(options: SentencePieceOptions) -> dict[str, Any]:
    special = options.special
    return {
        **{f"{role}_id": special.ids.get(role, -1) for role in _DEFAULT_IDS},
        **{f"{role}_piece": token for role, token in special.tokens.items() if role != "eod"},
        **{name: str(value).lower() if isinstance(value, bool) else value for name, value in options.trainer.items()},
    }


def _reason(error: Exception) -> str:
    """The library's message without the place in its source; where it says no more than a condition, the condition."""
    text = " ".join(str(error).split())
    before, bracket, after = text.rpartition("]")
    condition = before.rpartition("[")[2]
    return (after.strip() if bracket else text) or f"this must hold: {condition}"


def _compare(tokenizer: Any, processor: Any, texts: list[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    control = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    # They are known to differ: a control symbol is found in a text there, and is plain text to the model.
    compared = [text for text in texts if not any(symbol in text for symbol in control)]
    different = [t for t in compared if processor.encode(t) != tokenizer.encode(t, add_special_tokens=False).ids]
    findings = {"compared_with_model": {"texts": len(compared), "other_ids": len(different)}}
    if not different:
        return findings, ()
    shortest = min(different, key=len)
    return findings, (
        f"tokenizer.json gives other ids than .model for {len(different)} of {len(compared)} texts (the shortest "
        f"begins {shortest[:40]!r}); train and serve with one and the same of them",
    )
