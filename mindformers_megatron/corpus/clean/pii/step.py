"""The step ``pii``: personal data masked, or documents with any dropped."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.pii.checks import known_regions
from mindformers_megatron.corpus.clean.pii.finders import Kind, find_in_all
from mindformers_megatron.corpus.steps import rewrite, sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError

PLACEHOLDERS: dict[Kind, str] = {
    "email": "[EMAIL]",
    "phone": "[PHONE]",
    "id_card": "[ID_CARD]",
    "bank_card": "[BANK_CARD]",
    "ip": "[IP]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pii:
    """Finds mail addresses, telephone, identity-card and bank-card numbers and IP addresses.

    Numbers that have a checksum or a plan are taken for what they look like only if it holds: identity cards (GB
    11643), bank cards (Luhn, issuer), telephones (``phonenumbers``). IP addresses count if they are public. How many of
    each kind were found is counted by source.

    Attributes:
        kinds: what to look for.
        action: ``mask``: put ``[EMAIL]``, ``[PHONE]``, ``[ID_CARD]``, ``[BANK_CARD]``, ``[IP]`` in its place; ``drop``
            the document.
        regions: countries, by ISO 3166, whose telephone numbers are known without ``+`` and country code.
    """

    name: ClassVar[str] = "pii"
    version: ClassVar[int] = 1

    kinds: tuple[Kind, ...] = ("email", "phone", "id_card", "bank_card", "ip")
    action: Literal["mask", "drop"] = "mask"
    regions: tuple[str, ...] = ("CN",)

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ConfigError("kinds is empty; give at least one")
        for region in self.regions:
            if region not in known_regions():
                raise ConfigError(f"regions has {region!r}; expected countries by ISO 3166, such as CN, US, JP")

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        texts = list(batch.texts)
        drops: list[Drop | None] = [None] * len(batch)
        every = find_in_all(batch.texts, self.kinds, self.regions)
        for place, (document, found) in enumerate(zip(batch.documents, every, strict=True)):
            if not found:
                continue
            for _, _, kind in found:
                tally.find(document.source, kind)
            texts[place] = _masked(document.text, found)
            drops[place] = Drop(found[0][2], f"{len(found):,} found")
        return sift(batch, drops, tally) if self.action == "drop" else rewrite(batch, texts, tally)


def _masked(text: str, found: list[tuple[int, int, Kind]]) -> str:
    pieces, position = [], 0
    for start, end, kind in found:
        pieces += [text[position:start], PLACEHOLDERS[kind]]
        position = end
    return "".join([*pieces, text[position:]])
