from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.tokenization.documents import assemble


@given(
    documents=st.lists(st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=3), max_size=6),
    eod=st.none() | st.just(100),
)
def test_documents_are_what_megatrons_loop_makes_of_the_same_texts(
    documents: list[list[list[int]]], eod: int | None
) -> None:
    expected_ids: list[int] = []
    expected_lengths: list[int] = []
    expected_sequences: list[int] = []
    for texts in documents:
        ids: list[int] = []
        lengths: list[int] = []
        for text in texts:
            if text:
                ids += text
                lengths.append(len(text))
        if ids and eod is not None:
            ids.append(eod)
            lengths[-1] += 1
        expected_ids += ids
        expected_lengths += lengths
        expected_sequences.append(len(lengths))

    texts = [text for document in documents for text in document]
    found = assemble(
        np.array([id_ for text in texts for id_ in text], np.int32),
        np.array([len(text) for text in texts], np.int64),
        np.array([len(document) for document in documents], np.int64),
        eod,
    )
    assert found.ids.tolist() == expected_ids
    assert found.lengths.tolist() == expected_lengths
    assert found.sequences.tolist() == expected_sequences
    starts = np.cumsum([0, *expected_sequences])
    per_document = [sum(expected_lengths[a:b]) for a, b in pairwise(starts)]
    assert found.tokens_per_document().tolist() == per_document
