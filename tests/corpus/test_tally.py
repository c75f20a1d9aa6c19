"""Tallies of parts add up to the tally of the whole, in any order and however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.tally import EXAMPLES, Drop, Tally
from tests.corpus.documents import document

events = st.lists(st.tuples(st.sampled_from(["in", "out", "drop", "change", "find"]), st.integers(0, 60)), max_size=80)


def tally_of(happened: list[tuple[str, int]]) -> Tally:
    tally = Tally()
    for kind, number in happened:
        one = document(f"text 第{number}", number, f"source{number % 3}")
        if kind == "in":
            tally.enter(Batch([one]))
        elif kind == "out":
            tally.leave(Batch([one]))
        elif kind == "drop":
            tally.drop(one, Drop(f"reason {number % 2}", f"{number} found"))
        elif kind == "change":
            tally.change(one, f"text 第{number}!")
        else:
            tally.find(one.source, "email", number)
    return tally


@given(events, st.randoms(use_true_random=False), st.integers(1, 10))
def test_tallies_add_up_in_any_order(happened: list[tuple[str, int]], random: object, parts: int) -> None:
    whole = tally_of(happened)
    pieces = [tally_of(happened[first::parts]) for first in range(parts)]
    random.shuffle(pieces)  # type: ignore[attr-defined]
    total = Tally()
    for piece in pieces:
        total.add(Tally.from_json(piece.to_json()))
    assert total.to_json() == whole.to_json()


def test_what_came_and_went_is_counted_by_source_in_bytes_and_documents() -> None:
    tally = Tally()
    batch = Batch([document("汉字", 1, "zh"), document("four", 2, "en"), document("five5", 3, "en")])
    tally.enter(batch)
    tally.leave(batch.kept([0, 2]))
    assert (tally.of("zh").documents_in, tally.of("zh").bytes_in) == (1, 6)
    assert (tally.of("en").documents_in, tally.of("en").bytes_in) == (2, 9)
    assert (tally.of("en").documents_out, tally.of("en").bytes_out) == (1, 5)
    assert dict(tally.of("en").lengths) == {3: 1}


def test_a_few_examples_are_kept_of_any_number_and_show_the_difference() -> None:
    tally = Tally()
    for number in range(1000):
        tally.drop(document("x" * 10_000, number), Drop("too long", "10,000"))
        tally.change(document("same " * 500 + "old" + "end" * 500, number), "same " * 500 + "new" + "end" * 500)
    assert {reason: len(kept) for reason, kept in tally.examples.items()} == {"too long": EXAMPLES, "changed": EXAMPLES}
    dropped, changed = tally.examples["too long"][0], tally.examples["changed"][0]
    assert len(dropped.text) == 400
    assert dropped.after is None
    assert changed.after is not None
    assert "old" in changed.text
    assert "new" in changed.after
