"""Damage of every kind, planted in 10,000 documents, is located to the document and repaired."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenized import DOCUMENTS, TOKENIZER, Pair

from mindformers_megatron.format.documents import read_documents
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.paths import bin_path
from mindformers_megatron.format.provenance_rows import DocRows
from mindformers_megatron.format.repair import repair_pair
from mindformers_megatron.format.verify.pair import verify_pair
from mindformers_megatron.format.verify.spans import numbers_of
from mindformers_megatron.format.writer import IndexedDatasetWriter
from mindformers_megatron.tokenization.retokenize import Retokenizer, compare_with_sources

Plant = Callable[[Pair], set[int]]


def document_of(pair: Pair, sequence: int) -> int:
    return int(np.searchsorted(np.asarray(pair.index.document_indices), sequence, "right")) - 1


def documents_from(pair: Pair, sequence: int) -> set[int]:
    return {document_of(pair, later) for later in range(sequence, pair.index.num_sequences)}


def tokens_of(pair: Pair, document: int) -> np.ndarray:
    index = pair.index
    first, last = index.document_indices[[document, document + 1]]
    begin = int(index.sequence_pointers[first])
    count = int(index.sequence_lengths[first:last].sum())
    return pair.bin[begin : begin + 2 * count].view("<u2")


def id_out_of_range(pair: Pair) -> set[int]:
    tokens_of(pair, 17)[3] = 60_000
    tokens_of(pair, 9_990)[0] = 4_000
    return {17, 9_990}


def id_into_another_id(pair: Pair) -> set[int]:
    tokens = tokens_of(pair, 4_321)
    tokens[1] = tokens[1] % 3_000 + 7
    return {4_321}


def eod_overwritten(pair: Pair) -> set[int]:
    tokens_of(pair, 30)[-1] = 5
    return {30}


def block_of_tokens_zeroed(pair: Pair) -> set[int]:
    pair.bin[40_960:45_056] = 0
    index = pair.index
    begins = np.asarray(index.sequence_pointers)
    inside = (begins + 2 * np.asarray(index.sequence_lengths) > 40_960) & (begins < 45_056)
    return {document_of(pair, sequence) for sequence in np.flatnonzero(inside)}


def length_wrong(pair: Pair) -> set[int]:
    pair.array("lengths")[5_000] += 3
    return {document_of(pair, 5_000)}


def lengths_exchanged(pair: Pair) -> set[int]:
    lengths = pair.array("lengths")
    lengths[[100, 7_000]] = lengths[[7_000, 100]] + [0, 1]
    return {document_of(pair, 100), document_of(pair, 7_000)}


def length_negative(pair: Pair) -> set[int]:
    pair.array("lengths")[0] = -1
    return {document_of(pair, 0)}


def last_length_wrong(pair: Pair) -> set[int]:
    pair.array("lengths")[-1] += 2
    return {DOCUMENTS - 1}


def block_of_lengths_random(pair: Pair) -> set[int]:
    lengths = pair.array("lengths")
    lengths[2_000:3_024] = np.random.default_rng(0).integers(-(2**31), 2**31 - 1, 1_024)
    return {document_of(pair, sequence) for sequence in range(2_000, 3_024)}


def pointer_wrong(pair: Pair) -> set[int]:
    pair.array("pointers")[6_001] ^= 1 << 35
    return {document_of(pair, 6_001)}


def pointers_overflowed(pair: Pair) -> set[int]:
    pair.array("pointers")[8_000:] -= 2**32
    return documents_from(pair, 8_000)


def block_of_pointers_zeroed(pair: Pair) -> set[int]:
    pair.array("pointers")[3_000:3_512] = 0
    return {document_of(pair, sequence) for sequence in range(3_000, 3_512)}


def boundary_out_of_order(pair: Pair) -> set[int]:
    pair.array("documents")[700] = 2
    return {699, 700}


def boundary_moved(pair: Pair) -> set[int]:
    # In order still: document 1,233 gets a sequence of the one behind it, which has no other.
    documents = pair.array("documents")
    assert documents[1_235] == documents[1_234] + 1
    documents[1_234] += 1
    return {1_233, 1_234}


def last_boundary_wrong(pair: Pair) -> set[int]:
    pair.array("documents")[-1] += 1
    return {DOCUMENTS - 1}


def block_of_boundaries_zeroed(pair: Pair) -> set[int]:
    pair.array("documents")[4_000:4_512] = 0
    return set(range(3_999, 4_512))


def bin_cut_off(pair: Pair) -> set[int]:
    index = pair.index
    with bin_path(pair.prefix).open("r+b") as file:
        file.truncate(int(index.sequence_pointers[9_000]) + 2)
    return documents_from(pair, 9_000)


def bin_with_more_behind(pair: Pair) -> set[int]:
    with bin_path(pair.prefix).open("ab") as file:
        file.write(b"xyz" * 11)
    return set()


def many_at_once(pair: Pair) -> set[int]:
    planted = (eod_overwritten, id_into_another_id, boundary_out_of_order, bin_cut_off, pointer_wrong, length_wrong)
    return set().union(*(plant(pair) for plant in planted))


PLANTS = [
    id_out_of_range,
    id_into_another_id,
    eod_overwritten,
    block_of_tokens_zeroed,
    length_wrong,
    lengths_exchanged,
    length_negative,
    last_length_wrong,
    block_of_lengths_random,
    pointer_wrong,
    pointers_overflowed,
    block_of_pointers_zeroed,
    boundary_out_of_order,
    boundary_moved,
    last_boundary_wrong,
    block_of_boundaries_zeroed,
    bin_cut_off,
    bin_with_more_behind,
    many_at_once,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted_damage_is_located_and_repaired(original: Pair, copy: Pair, tmp_path: Path, plant: Plant) -> None:
    planted = plant(copy)
    verdict = verify_pair(copy.prefix, full=True)
    assert not verdict.sound
    retokenizer = Retokenizer(copy.prefix, TOKENIZER, copy.folder)
    if verdict.counts.get("checksum"):
        verdict = compare_with_sources(verdict, retokenizer)
    found = set(numbers_of(verdict.damaged).tolist())
    assert found == planted
    for finding in verdict.findings:
        if finding.document is not None:
            assert finding.source == f"{copy.folder / 'raw.jsonl'}:{finding.document + 1}"
            assert finding.id == f"d{finding.document}"

    dropped = repair_pair(verdict, tmp_path / "dropped")
    fresh = fresh_pair(original, tmp_path / "fresh", found)
    assert Pair(dropped.prefix, copy.folder).files() == fresh.files()
    assert verify_pair(dropped.prefix, full=True).sound
    assert [row["id"] for row in DocRows(dropped.prefix).rows(0, DOCUMENTS - len(found))] == [
        f"d{number}" for number in range(DOCUMENTS) if number not in found
    ]
    described = read_metadata(dropped.prefix)
    assert described is not None
    if found:
        assert described.options["repair"]["dropped"] == len(found)

    remade = repair_pair(verdict, tmp_path / "remade", remake=retokenizer.remake)
    assert remade.restored
    assert Pair(remade.prefix, copy.folder).files() == original.files()
    assert verify_pair(remade.prefix, full=True).sound
    assert read_metadata(remade.prefix) == read_metadata(original.prefix)


def fresh_pair(original: Pair, prefix: Path, left_out: set[int]) -> Pair:
    """The pair without some documents, as the writer writes it."""
    with IndexedDatasetWriter(prefix, np.uint16) as writer:
        for batch in read_documents(original.index):
            edges, bounds = batch.edges(), np.concatenate(([0], np.cumsum(batch.sequences)))
            for place in range(len(batch)):
                if batch.first + place not in left_out:
                    tokens = batch.tokens[edges[place] : edges[place + 1]]
                    writer.add_document(tokens, batch.lengths[bounds[place] : bounds[place + 1]])
    return Pair(str(prefix), original.folder)
