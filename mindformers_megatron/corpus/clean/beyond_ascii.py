"""What of a text is not ASCII: next to nothing in most texts, so that a search in it alone costs next to nothing."""

import numpy as np

_ASCII = bytes(range(0x80))


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in order."""
    return "" if text.isascii() else text.encode().translate(None, _ASCII).decode()


def runs_beyond_ascii(text: str) -> str:
    """The same, each run of them followed by the character that follows it in the text."""
    codes = np.frombuffer(text.encode(), np.uint8)
    keep = codes >= len(_ASCII)
    keep[1:] |= keep[:-1].copy()
    return codes[keep].tobytes().decode()
