"""The step ``unicode``: one form for each character, line ends that are line ends, nothing that cannot be seen."""

import re
import unicodedata
from dataclasses import dataclass
from typing import ClassVar, Literal

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.beyond_ascii import beyond_ascii
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally

_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Whether there is anything to do: of ASCII, and beyond.
_PLAIN = bytes(code for code in range(256) if code >= 0x20 or code in b"\t\n").replace(b"\x7f", b"")
_ODD = re.compile(
    "[\x80-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe-\U0010ffff]"
)
# Control characters, marks of direction, invisible operators, byte order marks, annotation marks, noncharacters. Not
# the joiners U+200C and U+200D nor variation selectors, on which Persian, Indic scripts and emoji depend.
_UNPRINTABLE = re.compile(
    "[\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff\U000e0001"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000))
    + "]"
)
_PRIVATE_USE = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unicode:
    r"""Normalises characters, makes every line end ``\n``, and takes out what cannot be printed.

    Attributes:
        form: of normalisation (Unicode Standard Annex #15). NFC changes no meaning; NFKC also makes ``ﬁ`` ``fi``, ``①``
            ``1`` and full-width Latin letters and punctuation half-width; null: none.
        control: whether unprintable characters are taken out.
        private_use: whether private-use characters, which mean nothing outside of the font they are from, are kept.
    """

    name: ClassVar[str] = "unicode"
    version: ClassVar[int] = 1

    form: Literal["NFC", "NFKC"] | None = "NFC"
    control: bool = True
    private_use: Literal["keep", "drop"] = "keep"

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return rewrite(batch, [self._clean(text) for text in batch.texts], tally)

    def _clean(self, text: str) -> str:
        odd, beyond = text.encode().translate(None, _PLAIN).decode(), beyond_ascii(text)
        if odd or _ODD.search(beyond):
            text = _LINE_ENDS.sub("\n", text)
            if self.control and (_UNPRINTABLE.search(odd) or _UNPRINTABLE.search(beyond)):
                text = _UNPRINTABLE.sub("", text)
        if self.private_use == "drop" and _PRIVATE_USE.search(beyond):
            text = _PRIVATE_USE.sub("", text)
        # Last: what stood between two characters that compose may be gone now.
        if self.form and not unicodedata.is_normalized(self.form, text):
            text = unicodedata.normalize(self.form, text)
        return text
