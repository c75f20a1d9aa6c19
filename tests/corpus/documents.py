"""Documents for tests."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.registry import build_step
from mindformers_megatron.corpus.tally import Tally

unicode_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def document(text: str, number: int = 1, source: str = "web", meta: Mapping[str, Any] | None = None) -> Document:
    return Document(text, f"d{number}", source, Origin("raw.jsonl", number, 100 * number), meta or {})


def documents(texts: list[str], source: str = "web") -> list[Document]:
    return [document(text, number, source) for number, text in enumerate(texts, 1)]


def apply(step: str, texts: list[str], **parameters: Any) -> tuple[list[str], Tally]:
    """The texts that a step keeps, and what it counted."""
    tally = Tally()
    kept = build_step({step: parameters}).apply(Batch(documents(texts)), tally)
    return list(kept.texts), tally


def drops(step: str, texts: list[str], **parameters: Any) -> dict[str, int]:
    """How many of the texts a step drops, by reason."""
    _, tally = apply(step, texts, **parameters)
    return dict(tally.of("web").dropped)


PROSE = (
    "A corpus that a model is trained on should read like something a person wrote for another person to read. Most of "
    "what is found on the web was not: there are menus, lists of products, and pages that a program made for other "
    "programs. The rules that drop such pages are simple, and they have been in use for years; each looks at one "
    "property, the share of lines that end a sentence for one, and none of them is right every time. That is why the "
    "numbers are kept, and why some of what was dropped is shown to whoever asks what became of the data."
)
CHINESE = (
    "训练模型所用的语料，应当像是人写给人看的文字。网络上的大部分内容并不是这样：有菜单，有商品列表，也有程序为别的程序生成的页面。"
    "去掉这些页面的规则都很简单，已经用了许多年；每一条只看一个方面，例如有多少行是完整的句子，没有哪一条永远正确。"
    "所以我们保留这些数字，并且把去掉的内容留下一部分，给想知道数据去了哪里的人看。"
)
