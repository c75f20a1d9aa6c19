"""A chain of steps: named, checked, fingerprinted, and the same however documents are batched."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.batch import Batch, batches_of
from mindformers_megatron.corpus.registry import DEFAULT_CHAIN, STEPS, build_step, step_class
from mindformers_megatron.corpus.steps import chain_fingerprint, describe, run_chain
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError
from tests.corpus.documents import CHINESE, PROSE, document, documents, unicode_texts


def test_every_step_is_found_by_its_name() -> None:
    for name in STEPS:
        cls = step_class(name)
        assert cls.name == name
        assert isinstance(cls.version, int)
    assert set(DEFAULT_CHAIN) <= set(STEPS)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("htlm", "unknown step 'htlm'; did you mean html?"),
        ({"html": {"keeep": "all"}}, "step html: unknown option 'keeep'; did you mean keep?"),
        ({"html": {"keep": "some"}}, "step html: keep is 'some'; expected one of: main, all"),
        ({"pii": {"regions": 5}}, "step pii: regions is 5; expected a list, each text"),
        ({"fineweb": {"short_line": 1.5}}, "step fineweb: short_line is 1.5; expected a whole number"),
        ({"fineweb": {"max_short_lines": True}}, "step fineweb: max_short_lines is True; expected a number"),
        ({"length": None}, "step length: no limit given; give min_characters"),
        ({"classifier": {"model": "x"}}, "step classifier: label is missing"),
        (
            {"gopher_quality": {"unspaced": {"min_word": 1}}},
            "step gopher_quality.unspaced: unknown option 'min_word'; did",
        ),
        ({"unicode": {}, "html": {}}, "expected a name, or one name with its parameters"),
        ({"unicode": {"sources": 5}}, "step unicode: sources is 5; expected names of sources"),
        ({"unicode": "NFC"}, "step unicode: 'NFC'; expected parameters, as name: value"),
        (7, "a step is 7"),
    ],
)
def test_a_mistake_in_a_recipe_is_told_in_one_line(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        build_step(entry)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_parameters_are_converted_as_yaml_gives_them() -> None:
    step: Any = build_step({"gopher_repetition": {"top_ngrams": {2: 1}, "unspaced": None, "max_repeated_lines": 1}})
    assert step.top_ngrams == {2: 1.0}
    assert step.unspaced is None
    assert isinstance(step.max_repeated_lines, float)
    assert build_step({"pii": {"kinds": "email"}}) == build_step({"pii": {"kinds": ["email"]}})


def test_any_change_of_what_is_done_changes_the_fingerprint(tmp_path: Path) -> None:
    listed = tmp_path / "words.txt"
    listed.write_text("bad\n")
    entries: list[Any] = [
        "unicode",
        {"unicode": {"form": "NFKC"}},
        {"unicode": {"sources": ["web"]}},
        {"gopher_quality": {"unspaced": {"min_words": 5}}},
        "gopher_quality",
        {"blocked_words": {"lists": [str(listed)]}},
    ]
    prints = {chain_fingerprint([build_step(entry)]) for entry in entries}
    assert len(prints) == len(entries)
    assert chain_fingerprint([build_step(entry) for entry in entries[:2]]) not in prints
    listed.write_text("bad\nworse\n")
    assert chain_fingerprint([build_step(entries[-1])]) not in prints
    assert describe(build_step("html")) == {
        "name": "html",
        "version": 2,
        "parameters": {"keep": "main", "pages": "detected"},
    }


def run(entries: list[Any], batches: list[Batch]) -> tuple[list[tuple[str, str]], list[Any]]:
    steps = [build_step(entry) for entry in entries]
    tallies = [Tally() for _ in steps]
    kept = [
        (one.id, one.text)
        for batch in batches
        for result in run_chain(steps, batch.documents, tallies)
        for one in result.documents
    ]
    return kept, [tally.to_json() for tally in tallies]


@settings(max_examples=25)
@given(
    st.lists(
        st.sampled_from([PROSE, CHINESE, PROSE * 3, "short", "", "　　汉字　汉字。\r\n" * 30, "<p>a</p><p>b</p>"])
        | unicode_texts,
        max_size=12,
    ),
    st.data(),
)
def test_the_result_does_not_depend_on_batches(texts: list[str], data: Any) -> None:
    whole = documents(texts)
    cut = data.draw(st.integers(0, len(whole)))
    together = run([*DEFAULT_CHAIN, "c4"], [Batch(whole)])
    apart = run([*DEFAULT_CHAIN, "c4"], [Batch(whole[:cut]), Batch(whole[cut:])])
    alone = run([*DEFAULT_CHAIN, "c4"], [Batch([one]) for one in whole])
    assert together == apart == alone


def test_documents_and_bytes_are_accounted_for_at_every_step() -> None:
    steps = [build_step(entry) for entry in (*DEFAULT_CHAIN, {"sample": {"share": 0.5}})]
    tallies = [Tally() for _ in steps]
    texts = (
        [PROSE + f" Number {number}." for number in range(50)]
        + [CHINESE] * 9
        + ["?!", "", "<html><body></body></html>"]
    )
    kept = [one for batch in run_chain(steps, documents(texts), tallies) for one in batch.documents]
    for tally, following in zip(tallies, [*tallies[1:], None], strict=True):
        counts = tally.of("web")
        assert counts.documents_in == counts.documents_out + sum(counts.dropped.values())
        if following:
            assert following.of("web").documents_in == counts.documents_out
            assert following.of("web").bytes_in == counts.bytes_out
    assert tallies[-1].of("web").documents_out == len(kept) > 0


def test_a_step_for_some_sources_leaves_others_alone_and_keeps_the_order() -> None:
    step = build_step({"length": {"min_characters": 3, "sources": ["a", "c"]}})
    texts = [("a", "x"), ("b", "x"), ("b", "long"), ("a", "long"), ("c", "x"), ("d", "y"), ("a", "12345")]
    tally = Tally()
    kept = step.apply(Batch([document(text, n, source) for n, (source, text) in enumerate(texts)]), tally)
    assert [one.id for one in kept.documents] == ["d1", "d2", "d3", "d5", "d6"]
    assert {source: sum(counts.dropped.values()) for source, counts in tally.sources.items()} == {"a": 1, "c": 1}


def test_measures_survive_drops_and_are_those_of_the_documents_left() -> None:
    texts = [f"word {'x ' * number}" for number in range(40)]
    batch = Batch(documents(texts))

    def word_counts(measured: Any) -> Any:
        import numpy as np

        return np.diff(measured.words.offsets)

    assert batch.of(word_counts).tolist() == [number + 1 for number in range(40)]
    for places in ([*range(1, 40)], [0, 5, 7], []):
        assert batch.kept(places).of(word_counts).tolist() == [place + 1 for place in places]
    assert batch.kept(range(2, 40)).kept(range(3, 36)).of(word_counts).tolist() == [*range(6, 39)]


def test_batches_are_bounded() -> None:
    gathered = list(batches_of(documents(["x" * 10] * 100 + ["y" * 1000]), characters=50, count=4))
    assert [len(batch) for batch in gathered] == [4] * 25 + [1]
