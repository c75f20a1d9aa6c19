"""The step ``split``: over-long documents cut at the ends of paragraphs."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.documents import Document
from mindformers_megatron.corpus.filters.tokens import count_tokens, tokenizer_files
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError

# Where to cut, the best place first.
_PLACES = tuple(
    re.compile(place) for place in (r"\n\s*\n", r"\n", r"[。！？；…][”’」』）]?|[.!?][\"')\]]?(?=\s)", r"\s")
)
# Of a piece that is cut there, at least; a heading is no piece.
_LEAST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Cuts long documents into several, none longer than asked, named ``<id>#1``, ``<id>#2`` and so on.

    A cut is made behind the last paragraph that fits, or else line, sentence, or word, unless that leaves less than
    half of what may be; a longer word is cut anywhere. No character is lost but the blanks at a cut.

    Attributes:
        max_characters: of a piece; null: no limit.
        max_tokens: of a piece, of ``tokenizer``; null: no limit.
        tokenizer: a folder or file as for ``mfm preprocess --tokenizer``; needed for ``max_tokens``.
    """

    name: ClassVar[str] = "split"
    version: ClassVar[int] = 1

    max_characters: int | None = None
    max_tokens: int | None = None
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        if self.max_characters is None and self.max_tokens is None:
            raise ConfigError("no limit given; give max_characters or max_tokens")
        if (self.max_characters is not None and self.max_characters < 1) or (
            self.max_tokens is not None and self.max_tokens < 1
        ):
            raise ConfigError("a limit is less than 1")
        if self.max_tokens is not None and self.tokenizer is None:
            raise ConfigError("max_tokens needs a tokenizer")

    @property
    def files(self) -> tuple[Path, ...]:
        """What else the result depends on."""
        return tokenizer_files(self.tokenizer) if self.tokenizer else ()

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``. Documents that are cut count as changed."""
        pieces = [self._cut(document.text) for document in batch.documents]
        if all(len(of_one) == 1 for of_one in pieces):
            return batch
        documents: list[Document] = []
        for document, of_one in zip(batch.documents, pieces, strict=True):
            if len(of_one) == 1:
                documents.append(document)
                continue
            tally.change(document, of_one[0])
            tally.find(document.source, "pieces", len(of_one))
            documents.extend(
                replace(document, text=text, id=f"{document.id}#{number}") for number, text in enumerate(of_one, 1)
            )
        return Batch(documents)

    def _cut(self, text: str) -> list[str]:
        pieces = [text] if self.max_characters is None else cut_text(text, self.max_characters)
        if self.max_tokens is None or self.tokenizer is None:
            return pieces
        # A token is a byte at least, so most texts need no counting.
        if all(len(piece.encode()) <= self.max_tokens for piece in pieces):
            return pieces
        fitting: list[str] = []
        waiting = pieces[::-1]
        while waiting:
            piece = waiting.pop()
            tokens = int(count_tokens(self.tokenizer, [piece])[0])
            if tokens <= self.max_tokens or len(piece) == 1:
                fitting.append(piece)
            else:
                # As if tokens were spread evenly; what is still too long is cut again.
                smaller = max(min(int(len(piece) * self.max_tokens / tokens), len(piece) - 1), 1)
                waiting.extend(cut_text(piece, smaller)[::-1])
        return fitting


def cut_text(text: str, most: int) -> list[str]:
    """Cuts a text into pieces of at most ``most`` characters, none of them blank; see ``Split``."""
    pieces = []
    position = 0
    while len(text) - position > most:
        stop = _stop(text, position, position + most)
        pieces.append(text[position:stop].rstrip())
        position = stop
        while position < len(text) and text[position] in "\r\n":
            position += 1
    pieces.append(text[position:])
    return [piece for piece in pieces if piece and not piece.isspace()] or [text]


def _stop(text: str, start: int, limit: int) -> int:
    least = start + int((limit - start) * _LEAST)
    for place in _PLACES:
        # One character more is looked at, for what has to follow.
        ends = [match.end() for match in place.finditer(text, least, limit + 1) if match.end() <= limit]
        if ends:
            return ends[-1]
    return limit
