"""Documents that go through the steps together, and what is measured of their texts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.documents import Document, utf8_bytes
from mindformers_megatron.corpus.measures.texts import MeasuredTexts

# Characters measured at once: their arrays, of 1 to 8 bytes a character, stay in the caches of one core.
_BATCH_CHARACTERS, _BATCH_DOCUMENTS = 1 << 18, 1 << 12
# Of the texts measured, those that must still be there; with fewer it is cheaper to measure the rest anew.
_WORTH_KEEPING = 0.5


class Batch:
    """Consecutive documents.

    What is measured of the texts outlives the documents that are dropped, so that filters in a row look at the
    characters once. No measure depends on which texts are measured together.

    Args:
        documents: the documents.
        measures: of texts that theirs are among; None: nothing is measured yet.
        rows: int64[D], which text each document has among those measured.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        measures: MeasuredTexts | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        self.documents = documents
        self._measures = measures
        self._rows = rows

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def texts(self) -> list[str]:
        """The texts."""
        return [document.text for document in self.documents]

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes of each text in UTF-8."""
        return [utf8_bytes(text) for text in self.texts]

    def places_by_source(self) -> dict[str, Sequence[int]]:
        """The places of the documents of each source."""
        first = self.documents[0].source if self.documents else ""
        if all(document.source == first for document in self.documents):
            return {first: range(len(self))} if self.documents else {}
        places: dict[str, list[int]] = {}
        for place, document in enumerate(self.documents):
            places.setdefault(document.source, []).append(place)
        return dict(places)

    def of(self, measure: Callable[[MeasuredTexts], NDArray[Any]]) -> NDArray[Any]:
        """One value a document, T[D]; see ``MeasuredTexts.of``."""
        if self._measures is None:
            self._measures = MeasuredTexts(self.texts)
        values = self._measures.of(measure)
        return values if self._rows is None else values[self._rows]

    def kept(self, places: Sequence[int]) -> "Batch":
        """The documents at some places, in order."""
        if len(places) == len(self):
            return self
        batch = Batch([self.documents[place] for place in places])
        if self._measures is not None and len(places) >= _WORTH_KEEPING * len(self._measures.texts):
            chosen = np.asarray(places, dtype=np.int64)
            batch._measures = self._measures
            batch._rows = chosen if self._rows is None else self._rows[chosen]
        batch.sizes = [self.sizes[place] for place in places]
        return batch

    def rewritten(self, texts: Sequence[str]) -> "Batch":
        """The same documents with other texts; those whose text is the same stay the very same."""
        documents, sizes, changed = list(self.documents), list(self.sizes), False
        for place, (document, text) in enumerate(zip(self.documents, texts, strict=True)):
            if text is not document.text and text != document.text:
                documents[place], sizes[place], changed = replace(document, text=text), utf8_bytes(text), True
        if not changed:
            return self
        batch = Batch(documents)
        batch.sizes = sizes
        return batch


def batches_of(
    documents: Iterable[Document], *, characters: int = _BATCH_CHARACTERS, count: int = _BATCH_DOCUMENTS
) -> Iterator[Batch]:
    """Gathers documents into batches.

    Args:
        documents: the documents, of any number.
        characters: of text in a batch, at which it is closed; a single document may have more.
        count: documents in a batch at most.
    """
    waiting: list[Document] = []
    size = 0
    for document in documents:
        waiting.append(document)
        size += len(document.text)
        if size >= characters or len(waiting) >= count:
            yield Batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield Batch(waiting)
