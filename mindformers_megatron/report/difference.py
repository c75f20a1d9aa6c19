"""Where two texts differ, word by word."""

import re
from difflib import SequenceMatcher

Runs = list[tuple[str, bool]]

# A character of a script without spaces is a word of its own.
_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯豈-﫿]|\w+?(?=[぀-ヿ㐀-鿿가-힯豈-﫿]|\b)|\s+|.", re.DOTALL)
# The comparison is quadratic.
_MOST_WORDS = 1500


def differing_runs(left: str, right: str) -> tuple[Runs, Runs]:
    """Cuts two texts into what they share and what they do not.

    Args:
        left: a text, of which the first 1,500 words are compared.
        right: the other, likewise.

    Returns:
        For each text its runs in order, with whether the other lacks it. Where one ends, what follows in the other is
        not marked: they are excerpts, cut at some place.
    """
    ours, theirs = ([word[0] for word in _WORD.finditer(text)] for text in (left, right))
    matcher = SequenceMatcher(None, ours[:_MOST_WORDS], theirs[:_MOST_WORDS], autojunk=False)
    runs: tuple[Runs, Runs] = ([], [])
    for operation, a, b, c, d in matcher.get_opcodes():
        is_tail = a == b == len(ours) or c == d == len(theirs)
        for side, words in zip(runs, (ours[a:b], theirs[c:d]), strict=True):
            if words:
                side.append(("".join(words), operation != "equal" and not is_tail))
    for side, words in zip(runs, (ours[_MOST_WORDS:], theirs[_MOST_WORDS:]), strict=True):
        if words:
            side.append(("".join(words), False))
    return runs
