"""The step ``html``: pages to text."""

import itertools
from dataclasses import dataclass
from typing import ClassVar, Literal

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.html_fragment import is_page, without_tags
from mindformers_megatron.corpus.clean.html_text import texts_of_pages
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Html:
    """Replaces HTML by its text. What is not HTML stays as it is, with every ``<`` in it.

    Attributes:
        keep: ``main``: the main content of a page, without menus, footers and the like (Bevendorff et al., "An
            Empirical Comparison of Web Content Extraction Algorithms", 2023; ``resiliparse``); ``all``: all of its
            text.
        pages: which texts are taken for pages: those that begin as one (``detected``), or ``all``. Of others, that only
            have tags in them, the tags are taken out.
    """

    name: ClassVar[str] = "html"
    version: ClassVar[int] = 2

    keep: Literal["main", "all"] = "main"
    pages: Literal["detected", "all"] = "detected"

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        are_pages = [self.pages == "all" or is_page(text) for text in batch.texts]
        pages = list(itertools.compress(batch.texts, are_pages))
        found = iter(texts_of_pages(pages) if self.keep == "all" else map(main_content, pages))
        texts = [next(found) if page else without_tags(text) for page, text in zip(are_pages, batch.texts, strict=True)]
        return rewrite(batch, texts, tally)


def main_content(html: str) -> str:
    """The main content of a page as text, empty if it has none."""
    extract = needed("resiliparse.extract.html2text", "finding the main content").extract_plain_text
    text: str = extract(html, main_content=True, alt_texts=False, links=False, form_fields=False, noscript=False)
    return text
