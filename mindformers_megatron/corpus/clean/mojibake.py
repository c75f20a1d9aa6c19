"""The step ``mojibake``: text that was decoded in the wrong encoding, decoded in the right one."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.beyond_ascii import beyond_ascii, runs_beyond_ascii
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally

# UTF-8 read as one of the Latin encodings: what begins a sequence, and what goes on with it. And the same in Cyrillic.
_BYTES_80_BF = bytes(range(0x80, 0xC0))
_LATIN_TAIL = re.escape(_BYTES_80_BF.decode("cp1252", "ignore") + _BYTES_80_BF.decode("latin-1"))
_CYRILLIC_TAIL = re.escape("".join(set(_BYTES_80_BF.decode("cp1251", "ignore")) - set("Ёё")))
_SUSPECTS = (re.compile(f"[\xc2-\xf4][{_LATIN_TAIL}]"), re.compile(f"[РС][{_CYRILLIC_TAIL}]"))
# UTF-8 read as GBK: what the first two bytes of full-width punctuation and of frequent characters are then. Hardly any
# of it is used in real text; and real text is no UTF-8 when it is written in GBK.
_GBK_SIGNALS = "锛銆鈥紝鐨鏄鎴澶鍦鏈瀛杩涓浜鍥绗"
_SUSPECT_GBK = re.compile(f"[{_GBK_SIGNALS}]")
_WIDE_RUN = re.compile("[^\0-\x7f]{2,}")
# GBK read as Latin-1: pairs of the bytes that its common characters consist of.
_LATIN_RUN = re.compile("(?:[\xa1-\xf7][\xa1-\xfe]){4,}")
# A search for sets in a row is many times as fast as one for a repeated group.
_EIGHT_LATIN = re.compile("[\xa1-\xf7][\xa1-\xfe]" * 4)
# Without any of these there is nothing to mend; most texts have none.
_SIGNALS = re.compile(f"[\xc2-\xf4РС{_GBK_SIGNALS}]")
_ALL = (_EIGHT_LATIN, *_SUSPECTS, _SUSPECT_GBK)
_LATIN_LETTER = re.compile("[\xa1-\xfe]")
# One in four characters of running Chinese is one of these.
_FREQUENT = frozenset(
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里，。、"
)
_FREQUENT_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mojibake:
    """Mends ``cafÃ©``, ``涓枃`` and ``ÖÐÎÄ``.

    Line by line, and only lines that look wrong are touched: UTF-8 read as a Western or Cyrillic encoding (``ftfy``),
    UTF-8 read as GBK, and GBK read as Latin-1. What lost bytes on the way cannot be mended and stays.
    """

    name: ClassVar[str] = "mojibake"
    version: ClassVar[int] = 1

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return rewrite(batch, [mend(text) for text in batch.texts], tally)


def mend(text: str) -> str:
    """Mends a text, as ``Mojibake`` does."""
    if not _SIGNALS.search(beyond_ascii(text)):
        return text
    runs = runs_beyond_ascii(text)
    if not any(pattern.search(runs) for pattern in _ALL):
        return text
    # First: to ftfy, which does not know of it, this one is not hopeless, and what it makes of it is.
    if _EIGHT_LATIN.search(text):
        text = _by_line(text, _EIGHT_LATIN, _mend_latin)
    for suspect in _SUSPECTS:
        if suspect.search(text):
            text = _by_line(text, suspect, _mend_western)
    if _SUSPECT_GBK.search(text):
        text = _by_line(text, _SUSPECT_GBK, lambda line: _WIDE_RUN.sub(_from_gbk, line))
    return text


def _by_line(text: str, suspect: re.Pattern[str], mend_line: Callable[[str], str]) -> str:
    return "\n".join([mend_line(line) if suspect.search(line) else line for line in text.split("\n")])


def _mend_western(line: str) -> str:
    fixed: str = _ftfy().fix_encoding(line)
    return fixed


@functools.cache
def _ftfy() -> Any:
    return needed("ftfy", "mending wrongly decoded text")


def _from_gbk(run: re.Match[str]) -> str:
    try:
        return run[0].encode("gb18030").decode()
    except UnicodeDecodeError:
        return run[0]


def _mend_latin(line: str) -> str:
    runs = "".join(_LATIN_RUN.findall(line))
    # A word of accented letters is no such line, nor is a table of them.
    if len(runs) < 0.8 * len(_LATIN_LETTER.findall(line)):
        return line
    try:
        decoded = runs.encode("latin-1").decode("gbk")
    except UnicodeDecodeError:
        return line
    if sum(character in _FREQUENT for character in decoded) < _FREQUENT_SHARE * len(decoded):
        return line
    return _LATIN_RUN.sub(lambda run: run[0].encode("latin-1").decode("gbk", "replace"), line)
