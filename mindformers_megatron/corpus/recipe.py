"""What a recipe decides: which texts become which corpora, and by which steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.prepare.contamination import Decontaminate
from mindformers_megatron.corpus.prepare.exact import ExactDedup
from mindformers_megatron.corpus.prepare.near import NearDedup
from mindformers_megatron.corpus.readers.sources import Source
from mindformers_megatron.corpus.splits import SplitOptions
from mindformers_megatron.corpus.steps import Step
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.engines.selection import EngineName
from mindformers_megatron.tokenization.tokenizer_files import SpecialTokensInText, TokenizerSpec

# Those that look at all documents together.
GLOBAL_STEPS = (ExactDedup, NearDedup, Decontaminate)
GlobalStep = ExactDedup | NearDedup | Decontaminate


@dataclass(frozen=True, slots=True)
class RecipeSource:
    """A source and its rank.

    Attributes:
        source: what is read.
        priority: the smallest keeps what several sources have; the order of the recipe, if it says nothing.
    """

    source: Source
    priority: int

    @property
    def name(self) -> str:
        """What its documents are counted and written under."""
        return str(self.source.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerOptions:
    """The tokenizer, or the one to be trained on what is kept. See ``TokenizerSpec``.

    Attributes:
        path: folder or file.
        vocab_file: GPT-2's, with ``merge_file``.
        merge_file: GPT-2's.
        train: train a byte-level BPE of so many ids first, on the training part of the corpora.
        eod_token: the token at the end of documents.
        eod_id: the same by its id.
        add_special_tokens: see there.
        special_tokens_in_text: see there.
    """

    path: str | None = None
    vocab_file: str | None = None
    merge_file: str | None = None
    train: int | None = None
    eod_token: str | None = None
    eod_id: int | None = None
    add_special_tokens: bool = False
    special_tokens_in_text: SpecialTokensInText = "split"

    def __post_init__(self) -> None:
        given = [name for name in ("path", "vocab_file", "train") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(f"{' and '.join(given) or 'nothing'} given; give one of path, vocab_file, train")
        least = 256 + 2
        if self.train is not None and self.train < least:
            raise ConfigError(f"train is {self.train}; give {least} ids or more: the 256 bytes are among them")

    def spec(self, trained: Path) -> TokenizerSpec:
        """What is opened.

        Args:
            trained: where a tokenizer that is trained goes.
        """
        return TokenizerSpec(
            path=trained if self.train is not None else Path(self.path) if self.path else None,
            vocab_file=Path(self.vocab_file) if self.vocab_file else None,
            merge_file=Path(self.merge_file) if self.merge_file else None,
            eod_token=self.eod_token,
            eod_id=self.eod_id,
            add_special_tokens=self.add_special_tokens,
            special_tokens_in_text=self.special_tokens_in_text,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingOptions:
    """How texts become pairs.

    Attributes:
        append_eod: end each document with the end-of-document token.
        seq_length: of training; for the fragment, the report and the metadata.
        engine: what encodes; see ``PreprocessSpec``.
    """

    append_eod: bool = True
    seq_length: int | None = None
    engine: EngineName = "auto"

    def __post_init__(self) -> None:
        if self.seq_length is not None and self.seq_length < 1:
            raise ConfigError(f"seq_length is {self.seq_length}; give 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What is looked at for the report alone.

    Attributes:
        languages: tell the language of every document that is kept.
    """

    languages: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """What the training YAML says beside the corpora.

    Attributes:
        base_config: the YAML that it is based on; None: a fragment, to be put into one.
        settings: others, by dotted path (``runner_config.epochs``).
    """

    base_config: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides what comes out.

    Attributes:
        output: the folder that takes it.
        sources: in the order of their documents.
        steps: in order; those of ``GLOBAL_STEPS`` look at all documents together.
        splits: the parts.
        tokenizer: None: the texts are left as they are.
        packing: how texts become pairs.
        report: what is looked at.
        training: what the training YAML says.
        rejects_allowed: records that cannot be read; None: any number; 0: the first ends the run.
        part_bytes: of raw input that is worked on at a time; the result does not depend on it.
        memory_bytes: for what looks at all documents together; likewise.
    """

    output: Path
    sources: tuple[RecipeSource, ...]
    steps: tuple[Step | GlobalStep, ...] = ()
    splits: SplitOptions = field(default_factory=lambda: SplitOptions(sizes={}))
    tokenizer: TokenizerOptions | None = None
    packing: PackingOptions = field(default_factory=PackingOptions)
    report: ReportOptions = field(default_factory=ReportOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    rejects_allowed: int | None = 0
    part_bytes: int = 64 << 20
    memory_bytes: int = 1 << 30
