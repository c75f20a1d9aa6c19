"""What the array code must find, said one character, word and pair at a time."""

import itertools
import unicodedata
from collections.abc import Sequence

from hypothesis import strategies as st

# Latin with accents, Greek, Cyrillic, Hangul; Han, kana, Thai; full-width forms; marks, digits, punctuation, symbols.
ALPHABET = "aAbBzßÉéσΣЖж한국" + "天地玄黃のアｱไทย" + "Ａ１，。、「」" + "x́0９²½" + " \n\t\u3000.,-_'\"<>/€😀\u200b"

texts = st.text(alphabet=ALPHABET, max_size=60)


def fold(character: str) -> str:
    compatible = unicodedata.normalize("NFKC", character)
    compatible = compatible if len(compatible) == 1 else character
    return compatible.lower() if len(compatible.lower()) == 1 else compatible


def kind(character: str) -> str:
    if unicodedata.category(character)[0] not in "LMN":
        return "separator"
    name = unicodedata.name(character, "")
    unspaced = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "THAI")
    return "sign" if name.startswith(unspaced) else "letter"


def words(text: str) -> list[tuple[int, int, str]]:
    """Start, end and folded form of each word."""
    found: list[tuple[int, int, str]] = []
    for kind_of_run, run in itertools.groupby(enumerate(text), key=lambda item: kind(item[1])):
        characters = list(run)
        if kind_of_run == "sign":
            found += [(place, place + 1, fold(character)) for place, character in characters]
        elif kind_of_run == "letter":
            word = "".join(fold(character) for _, character in characters)
            found.append((characters[0][0], characters[-1][0] + 1, word))
    return found


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    forms = [form for _, _, form in words(text)]
    return [tuple(forms[place : place + n]) for place in range(len(forms) - n + 1)]


def shingles(text: str, n: int) -> set[tuple[str, ...]]:
    forms = tuple(form for _, _, form in words(text))
    return set(ngrams(text, n)) if len(forms) >= n else ({forms} if forms else set())


def jaccard(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> float:
    return len(left & right) / len(left | right) if left or right else 0.0


def components(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The smallest member of the component of each number."""
    first: dict[int, int] = {}
    for left, right in pairs:
        low, high = sorted((first.setdefault(left, left), first.setdefault(right, right)))
        first = {number: low if member == high else member for number, member in first.items()}
    return first
