"""Real text for training: Python's own docstrings and sources, and some Chinese."""

from functools import cache
from itertools import islice

from mindformers_megatron.demo.collect import collect

CHINESE = (
    "自然语言处理研究能实现人与计算机之间用自然语言进行有效通信的各种理论和方法。",
    "词表大小是训练分词器时最重要的超参数之一，它直接影响模型的性能和效率。",
    "数据质量对模型能力有决定性的影响：去重不彻底，模型就会背诵训练样本。",
)


@cache
def real_texts() -> tuple[str, ...]:
    """Some 200 texts, 0.3 MB: prose, code and Chinese."""
    prose = [text.text for text in islice(collect("prose"), 150)]
    code = [text.text[:8000] for text in islice(collect("code"), 25)]
    return (*prose, *code, *CHINESE * 8)
