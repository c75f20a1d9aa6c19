"""The step ``html``: pages to text."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.html_fragment import is_page, without_tags
from mindformers_megatron.corpus.clean.html_text import text_of_page
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
    version: ClassVar[int] = 1

    keep: Literal["main", "all"] = "main"
    pages: Literal["detected", "all"] = "detected"

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return rewrite(batch, [self._text(text) for text in batch.texts], tally)

    def _text(self, text: str) -> str:
        if self.pages == "detected" and not is_page(text):
            return without_tags(text)
        return main_content(text) if self.keep == "main" else text_of_page(text)


def main_content(html: str) -> str:
    """The main content of a page as text, empty if it has none."""
    extract = needed("resiliparse.extract.html2text", "finding the main content").extract_plain_text
    text: str = extract(html, main_content=True, alt_texts=False, links=False, form_fields=False, noscript=False)
    return text
