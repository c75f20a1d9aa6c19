"""Where personal data is in a text: a pattern for the form, a check for the rest."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from mindformers_megatron.corpus.clean.pii.checks import is_bank_card, is_id_card, is_phone, is_public_ip

Kind = Literal["email", "phone", "id_card", "bank_card", "ip"]
Window = tuple[int, int]

# Every pattern begins only where no character of the same sort stands before, so that long runs are looked at once.
# Around digits may be Chinese, but no letters or digits: those make it part of something else.
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_%+-][A-Za-z0-9._%+-]{0,63}@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
)
_ID_CARD = re.compile(r"(?<![0-9A-Za-z_.])[1-8][0-9]{5}(?:18|19|20)[0-9]{9}[0-9Xx](?![0-9A-Za-z_])")
_BANK_CARD = re.compile(
    r"(?<![0-9A-Za-z_.+-])(?:[0-9]{13,19}|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{1,4})?"
    r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})(?![0-9A-Za-z_]|[.-][0-9])"
)
_INTERNATIONAL = re.compile(r"(?<![0-9A-Za-z_+])\+[1-9](?:[ .()-]{0,2}[0-9]){6,14}(?![0-9A-Za-z_])")
_CHINESE = re.compile(
    r"(?<![0-9A-Za-z_.+-])(?:(?:86[ -]?)?1[3-9][0-9]([ -]?)[0-9]{4}\1[0-9]{4}"
    r"|(?:\(0[0-9]{2,3}\) ?|0[0-9]{2,3}[- ])[2-9][0-9]{6,7})(?![0-9A-Za-z_]|[.][0-9])"
)
# In other countries: digits in groups, as people write them; without groups any number could be one.
_GROUPED = re.compile(
    r"(?<![0-9A-Za-z_.+-])(?!(?:19|20)[0-9]{2}([./-])[0-9]{1,2}\1[0-9]{1,2})"  # no date
    r"\(?[0-9]{2,5}\)?(?:[ .-][0-9]{2,5}){1,4}(?![0-9A-Za-z_]|[.-][0-9])"
)
_IPV4 = re.compile(r"(?<![0-9A-Za-z_.-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9A-Za-z_-]|\.[0-9])")
_IPV6 = re.compile(
    r"(?<![0-9A-Za-z_:.])[23][0-9A-Fa-f]{3}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z_:.])"
)
# The four numbers of a release or a section look like an address. Those are small, which few addresses are throughout.
_RELEASE = re.compile(r"(?:version|ver\.?|release|rev\.?|build|版本|第)[ :：]?$", re.I)
_RELEASE_CHARACTERS = 12
_SMALL = 40

# Where it is worth looking: a few characters around an at sign, around seven digits near each other, around a group
# of digits between dots or colons. The patterns begin with a sign, for that is what is found fast.
_AT = re.compile("@")
_DOTTED = re.compile(r"\.[0-9]{1,3}\.[0-9]{1,3}\.")
_COLONS = re.compile(r":[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]")
_LOCAL_PART, _DOMAIN, _ADDRESS, _MARGIN = 66, 260, 42, 4
# So many digits at least, fewer than so many characters from each other.
_FEWEST, _APART = 7, 4
_ZERO, _TEN, _X, _LOWER_CASE = ord("0"), 10, ord("x"), 0x20
_SEPARATES = np.isin(np.arange(256), list(b" .()-"))
# Digits of the shortest number of a bank card.
_CARD = 13
_NOT_DIGITS = re.compile(r"[^0-9]")


def find(text: str, kinds: tuple[Kind, ...], regions: tuple[str, ...]) -> list[tuple[int, int, Kind]]:
    """What is found in one text; see ``find_in_all``."""
    return next(find_in_all([text], kinds, regions))


def find_in_all(
    texts: Sequence[str], kinds: tuple[Kind, ...], regions: tuple[str, ...]
) -> Iterator[list[tuple[int, int, Kind]]]:
    """Yields for each text (start, end, kind) of all that is found, in order, none within another.

    Args:
        texts: the texts.
        kinds: what to look for.
        regions: countries whose telephone numbers are known without ``+``, by ISO 3166.
    """
    for text, spans in zip(texts, _digits_near_each_other(texts), strict=True):
        found: list[tuple[int, int, Kind]] = []
        digits = Digits(spans)
        for kind in _PRECEDENCE:
            if kind in kinds:
                for match in _FINDERS[kind](text, digits, regions):
                    start, end = match.span()
                    if all(end <= first or last <= start for first, last, _ in found):
                        found.append((start, end, kind))
        yield sorted(found)


class Digits:
    """Where a text has seven digits or more near each other.

    Args:
        spans: the digits.

    Attributes:
        windows: their surroundings.
        long_windows: those of as many as a bank card has.
    """

    def __init__(self, spans: Sequence[Window]) -> None:
        self.windows = _surroundings(spans, _MARGIN, _MARGIN)
        self.long_windows = _surroundings(
            [(start, end) for start, end in spans if end - start >= _CARD], _MARGIN, _MARGIN
        )


def _digits_near_each_other(texts: Sequence[str]) -> Iterator[list[Window]]:
    """For each text where it has a digit and six digits or X behind it, each at most two separators from the last."""
    # A byte a character. What is not of Latin-1 becomes a question mark, and so keeps its place.
    codes = np.frombuffer(("?" * _APART).join([*texts, ""]).encode("latin-1", "replace"), np.uint8)
    is_digit = codes - np.uint8(_ZERO) < _TEN
    digits = np.flatnonzero(is_digit | ((codes | np.uint8(_LOWER_CASE)) == _X))
    gaps = np.diff(digits)
    near = gaps == 1
    for apart in range(2, _APART):
        rows = np.flatnonzero(gaps == apart)
        between = digits[rows, None] + np.arange(1, apart)
        near[rows[_SEPARATES[codes[between]].all(axis=1)]] = True
    firsts = np.append(0, np.flatnonzero(~near) + 1)
    lasts = np.append(firsts[1:], digits.size)
    # None begins with an X.
    without_x = np.append(np.flatnonzero(is_digit[digits]), digits.size)
    firsts = without_x[np.searchsorted(without_x, firsts)]
    enough = lasts - firsts >= _FEWEST
    starts, ends = digits[firsts[enough]], digits[lasts[enough] - 1] + 1
    begins = np.cumsum([0, *(len(text) + _APART for text in texts)])
    places = np.searchsorted(starts, begins).tolist()
    for begin, first, last in zip(begins.tolist(), places, places[1:], strict=False):
        yield list(zip((starts[first:last] - begin).tolist(), (ends[first:last] - begin).tolist(), strict=True))


def _windows(signal: re.Pattern[str], text: str, before: int, behind: int) -> list[Window]:
    """The surroundings of what a pattern matches."""
    return _surroundings((match.span() for match in signal.finditer(text)), before, behind)


def _surroundings(spans: Iterable[Window], before: int, behind: int) -> list[Window]:
    """Spans with so many characters around them, joined where they touch."""
    windows: list[Window] = []
    for first, last in spans:
        start, end = max(first - before, 0), last + behind
        if windows and start <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((start, end))
    return windows


def _matches(pattern: re.Pattern[str], text: str, windows: Sequence[Window]) -> Iterator[re.Match[str]]:
    for start, end in windows:
        yield from pattern.finditer(text, start, end)


def _emails(text: str, digits: Digits, regions: tuple[str, ...]) -> Iterator[re.Match[str]]:
    return _matches(_EMAIL, text, _windows(_AT, text, _LOCAL_PART, _DOMAIN) if "@" in text else ())


def _id_cards(text: str, digits: Digits, regions: tuple[str, ...]) -> Iterator[re.Match[str]]:
    return (match for match in _matches(_ID_CARD, text, digits.long_windows) if is_id_card(match[0]))


def _bank_cards(text: str, digits: Digits, regions: tuple[str, ...]) -> Iterator[re.Match[str]]:
    cards = _matches(_BANK_CARD, text, digits.long_windows)
    return (match for match in cards if is_bank_card(_NOT_DIGITS.sub("", match[0])))


def _phones(text: str, digits: Digits, regions: tuple[str, ...]) -> Iterator[re.Match[str]]:
    if "+" in text:
        yield from (match for match in _matches(_INTERNATIONAL, text, digits.windows) if is_phone(match[0], None))
    if "CN" in regions:
        yield from (match for match in _matches(_CHINESE, text, digits.windows) if is_phone(match[0], "CN"))
    if others := [region for region in regions if region != "CN"]:
        for match in _matches(_GROUPED, text, digits.windows):
            if any(is_phone(match[0], region) for region in others):
                yield match


def _ips(text: str, digits: Digits, regions: tuple[str, ...]) -> Iterator[re.Match[str]]:
    for match in _matches(_IPV4, text, _windows(_DOTTED, text, _ADDRESS, _ADDRESS)):
        before = text[max(match.start() - _RELEASE_CHARACTERS, 0) : match.start()]
        small = all(int(number) < _SMALL for number in match[0].split("."))
        if is_public_ip(match[0]) and not small and not _RELEASE.search(before):
            yield match
    for match in _matches(_IPV6, text, _windows(_COLONS, text, _ADDRESS, _ADDRESS)):
        if is_public_ip(match[0]):
            yield match


_FINDERS: dict[Kind, Callable[[str, Digits, tuple[str, ...]], Iterator[re.Match[str]]]] = {
    "email": _emails,
    "phone": _phones,
    "id_card": _id_cards,
    "bank_card": _bank_cards,
    "ip": _ips,
}
# Those with the stricter check first.
_PRECEDENCE: tuple[Kind, ...] = ("email", "id_card", "bank_card", "ip", "phone")
