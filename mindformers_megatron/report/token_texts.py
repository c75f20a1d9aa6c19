"""The text of each token of a sequence, for people to look at."""

from collections.abc import Sequence

from mindformers_megatron.tokenization.decoding import Decoder

# A token that ends within a character gives its text to the one that completes it; bytes that are no text never do.
_LONGEST_CHARACTER = 8
_INCOMPLETE = "�"


def token_texts(decode: Decoder, ids: Sequence[int]) -> list[str]:
    """Splits the text of a sequence among its tokens.

    Args:
        decode: Ids to text.
        ids: The sequence.

    Returns:
        A text for each token; the texts in a row are the text of the sequence. A character of several tokens stands at
        its last one.
    """
    texts = [""] * len(ids)
    # Some tokenizers drop a space at the start of what they decode: tokens are decoded behind the ones before them.
    context, done = 0, 0
    before = ""
    for place in range(len(ids)):
        text = decode(ids[context : place + 1])
        if text.endswith(_INCOMPLETE) and place + 1 - done < _LONGEST_CHARACTER and place + 1 < len(ids):
            continue
        texts[place] = text[len(before) :] if text.startswith(before) else text
        context, done = done, place + 1
        before = decode(ids[context:done])
    return texts
