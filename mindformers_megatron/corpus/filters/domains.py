"""The step ``blocked_domains``: documents from sites of a list."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.documents import Document
from mindformers_megatron.corpus.filters.lists import read_list
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedDomains:
    """Drops documents by the site they are from, which their ``meta`` names.

    Documents without a URL pass, and are counted as such.

    Attributes:
        domains: such as ``example.com``, for it and all below it.
        lists: files with one domain a line; blank lines and lines that begin with ``#`` are none.
        key: field of ``meta`` with the URL or the domain.
    """

    name: ClassVar[str] = "blocked_domains"
    version: ClassVar[int] = 1

    domains: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    key: str = "url"

    def __post_init__(self) -> None:
        if not self.domains and not self.lists:
            raise ConfigError("no domains given; give domains or lists")
        self._blocked()

    @property
    def files(self) -> tuple[Path, ...]:
        """What else the result depends on."""
        return tuple(map(Path, self.lists))

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        blocked = self._blocked()
        drops: list[Drop | None] = []
        for document in batch.documents:
            host = self._host(document)
            if host is None:
                tally.find(document.source, "no URL")
            parts = host.split(".") if host else []
            hit = next((name for first in range(len(parts)) if (name := ".".join(parts[first:])) in blocked), None)
            drops.append(Drop("blocked domain", hit) if hit else None)
        return sift(batch, drops, tally)

    def _blocked(self) -> frozenset[str]:
        listed = (domain for path in self.lists for domain in read_list(Path(path)))
        return frozenset(domain.lower().strip(".") for domain in (*self.domains, *listed))

    def _host(self, document: Document) -> str | None:
        url = document.meta.get(self.key)
        if not isinstance(url, str) or not url:
            return None
        try:
            return urlsplit(url if "//" in url else f"//{url}").hostname
        except ValueError:
            return None
