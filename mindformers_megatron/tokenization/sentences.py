"""Cutting texts into sentences, each of which becomes a sequence of its document."""

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import ConfigError

SplitText = Callable[[str], list[str]]

# Names of languages and their codes, by which the built-in splitter goes.
_SPACED = ("english", "en")
_UNSPACED = ("chinese", "zh", "japanese", "ja")
# Marks, then what may close a quotation or a bracket.
_CLOSING = r"[\"'”’»)\]）」』】》〉]*"
_ENGLISH_END = re.compile(rf"[.!?…]+{_CLOSING}(?=\s+[\"'“‘«(\[]*[A-Z0-9\u00c0-\u00de\u0391-\u03a9\u0410-\u042f])")
_CHINESE_END = re.compile(rf"(?:[。！？｡]+|[!?]+|…+){_CLOSING}(?!\s*[，、；：,;:])|(?<![0-9A-Za-z])\.(?=\s)")
_BREAK = re.compile(r"\n[^\S\n]*\n\s*")
# What ends in a full stop without ending a sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Mt|vs|etc|al|cf|Fig|Figs|Eq|No|Nos|Vol|pp|p|ed|eds|Inc|Ltd|Co|Corp|Gen|Col|"
    r"Capt|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|approx|dept|est)|\b[A-Za-z]|"
    r"\b(?:e\.g|i\.e|a\.m|p\.m|U\.S|U\.K|Ph\.D))\.$"
)
_LOOK_BACK = 12
# As much as Megatron gives to punkt at a time.
_CHUNK_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSpec:
    """How texts are cut into sentences.

    Attributes:
        language: of the texts; the built-in rules know English and Chinese, punkt what its data has.
        keep_newlines: the white space behind a sentence stays with it; otherwise it is dropped.
        punkt: a folder of NLTK data with ``tokenizers/punkt_tab``; None: the built-in rules.
    """

    language: str = "english"
    keep_newlines: bool = False
    punkt: Path | None = None


def sentence_splitter(spec: SentenceSpec) -> SplitText:
    """Makes what cuts texts.

    Raises:
        ConfigError: the language is not known, or NLTK or its data is missing.
    """
    if spec.punkt is not None:
        return _punkt(spec, spec.punkt)
    language = spec.language.lower()
    if language not in _SPACED + _UNSPACED:
        raise ConfigError(
            f"--lang {spec.language}: the built-in rules know {', '.join(_SPACED + _UNSPACED)}; give NLTK's "
            "punkt_tab as --punkt FOLDER for others"
        )
    pattern = _ENGLISH_END if language in _SPACED else _CHINESE_END
    return lambda text: _cut(text, _ends(text, pattern), spec.keep_newlines)


def _ends(text: str, pattern: re.Pattern[str]) -> list[int]:
    ends = {match.start() for match in _BREAK.finditer(text)}
    for match in pattern.finditer(text):
        before = text[max(match.start() - _LOOK_BACK, 0) : match.start() + 1]
        if not (text[match.start()] == "." and match.end() - match.start() == 1 and _ABBREVIATION.search(before)):
            ends.add(match.end())
    return sorted(ends)


def _cut(text: str, ends: list[int], keep: bool) -> list[str]:
    pieces, start = [], 0
    for end in [*ends, len(text)]:
        # White space behind a sentence is no part of the next one.
        while end < len(text) and text[end].isspace():
            end += 1
        piece = text[start:end]
        if piece and not piece.isspace():
            pieces.append(piece if keep else piece.strip())
        elif piece and keep and pieces:
            pieces[-1] += piece
        start = max(start, end)
    return pieces


def _punkt(spec: SentenceSpec, folder: Path) -> SplitText:
    try:
        nltk = importlib.import_module("nltk")
        punkt = importlib.import_module("nltk.tokenize.punkt")
        make = punkt.PunktTokenizer
    except (ImportError, AttributeError):
        raise ConfigError("--punkt needs NLTK 3.9 or newer; pip install 'nltk>=3.9'") from None
    # Tables of text, not the pickles of older versions, which would run code that comes with them.
    data = folder / "tokenizers" / "punkt_tab" / spec.language
    if not data.is_dir():
        raise ConfigError(
            f"{folder}: has no tokenizers/punkt_tab/{spec.language}; it is NLTK's data folder that is meant"
        )
    nltk.data.path.insert(0, str(folder))
    tokenizer = make(spec.language)

    def split(text: str) -> list[str]:
        sentences: list[str] = []
        for start in range(0, len(text), _CHUNK_CHARACTERS):
            chunk = text[start : start + _CHUNK_CHARACTERS]
            spans = list(tokenizer.span_tokenize(chunk))
            stops = (
                [*(begin for begin, _ in spans[1:]), len(chunk)] if spec.keep_newlines else [end for _, end in spans]
            )
            sentences += [chunk[begin:stop] for (begin, _), stop in zip(spans, stops, strict=True)]
        return sentences

    return split
