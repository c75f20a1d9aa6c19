"""What of a text is not ASCII: next to nothing in most texts, so that a search in it alone costs next to nothing."""

_ASCII = bytes(range(0x80))


def beyond_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, in order."""
    return "" if text.isascii() else text.encode().translate(None, _ASCII).decode()
