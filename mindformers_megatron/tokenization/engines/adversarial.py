"""Texts that tell engines apart: what splitting by words, normalizing and merging stumble over."""

import random
from collections.abc import Sequence

# fmt: off
_PIECES = (
    "the", "The", "THE", "tokenization", "naïve", "x", "I'm", "we'LL", "can't've", "don’t", "'s", "''",
    "_snake_case", "camelCaseWord", "0", "7", "42", "1234567890", "3.14159", "1e-9", "0x7f", "½", "Ⅷ", "²",
    "٣٤", "१२", " ", "  ", "    ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x85", "\xa0",
    "\u2003", "\u2028", "\u3000", "\u200b", "\u200d", "\ufeff", "\xad", "\0", "\x01", "\x1b[0m", "\x7f",
    "!", "?!", "...", "…", "--", "—", "/*", "*/", "//", "://", "#", "$", "€", "%", "^", "&&", "(", "))",
    "{}", "[", "<", ">", "|", "\\", "`", "~", "«", "»", "“", "”", "、", "。", "，", "「", "」", "·",
    "def f(x):\n    return x\n", "<p class=\"a\">", "https://example.org/a?b=c", "a@b.cc",
    "{\"k\": [1, null]}", "你好", "世界", "模型训练", "中文English混排", "日本語", "カタカナ", "ひらがな",
    "한국어", "한", "ไทย", "ह\u093fन\u094dद\u0940", "العربية", "עברית", "Ελληνικά", "ΣΊΣΥΦΟΣ", "Русский",
    "İstanbul", "ß", "ẞ", "ﬁ", "ﬀ", "Å", "A\u030a", "e\u0301", "e\u0301\u0323", "\u0301", "ǅ", "\u02b0",
    "𝔘𝔫𝔦", "𝟘", "𠀀", "𒀀", "𐍈", "\ue000", "\U000f0000", "😀", "👍🏽", "👩\u200d👩\u200d👧\u200d👦", "🇨🇳",
    "❤\ufe0f", "☃", "™", "№", "㎏", "aaaaaaaaaaaaaaaaaaaa", "ababababab", "哈哈哈哈哈哈哈哈",
    "----------------", "================", "▁", "▁▁", "Ġ", "Ċ", "##ing", "</s>", "<s>", "<unk>", "<0x0A>",
    "<|endoftext|>", "<|endoftext", "[MASK]", "[unused1]",
)
# fmt: on
_LONGEST = 24
# Some vocabularies have thousands, which differ in nothing but a number.
_SPECIAL_TOKENS = 64


def adversarial_texts(count: int, special_tokens: Sequence[str] = (), *, seed: int = 0) -> list[str]:
    """Makes texts, the same ones for the same arguments.

    Args:
        count: how many, beside each piece alone and each special token in some surroundings.
        special_tokens: of the tokenizer, mixed in like any other piece; the first 64.
        seed: for others.
    """
    special_tokens = special_tokens[:_SPECIAL_TOKENS]
    pieces = [*_PIECES, *special_tokens]
    texts = ["", *pieces]
    for token in special_tokens:
        texts += [f" {token}", f"{token} ", f"a{token}b", f"{token}{token}", f"\n{token}\n", token[:-1], token.upper()]
    # Not hash(): it differs between processes.
    source = random.Random(seed)
    for _ in range(count):
        texts.append("".join(source.choice(pieces) for _ in range(source.randint(1, _LONGEST))))
    return texts
