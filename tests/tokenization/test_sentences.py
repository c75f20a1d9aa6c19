"""Texts cut into sentences."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import GOLDEN, run

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.tokenization.sentences import SentenceSpec, sentence_splitter
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("english", "One. Two!  Three?", ["One.", "Two!", "Three?"]),
        ("english", 'He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("english", "Dr. Smith met Mr. J. Doe. They spoke.", ["Dr. Smith met Mr. J. Doe.", "They spoke."]),
        ("english", "It is 3.14, e.g. Pi. see below.", ["It is 3.14, e.g. Pi. see below."]),
        ("english", "A title\n\nA paragraph. It ends", ["A title", "A paragraph.", "It ends"]),
        ("en", "  \n ", []),
        ("en", "", []),
        ("chinese", "你好。世界！“真的吗？”他说。", ["你好。", "世界！", "“真的吗？”", "他说。"]),
        ("zh", "第一句。\n第二句；还是第二句……第三句", ["第一句。", "第二句；还是第二句……", "第三句"]),
    ],
)
def test_sentences_end_where_a_reader_would_say_so(language: str, text: str, sentences: list[str]) -> None:
    assert sentence_splitter(SentenceSpec(language=language))(text) == sentences


@given(st.text(alphabet="aB .!?\n\t。！中“”)1", max_size=40), st.sampled_from(["english", "chinese"]))
def test_nothing_but_white_space_is_lost(text: str, language: str) -> None:
    split = sentence_splitter(SentenceSpec(language=language))
    keep = sentence_splitter(SentenceSpec(language=language, keep_newlines=True))
    assert "".join("".join(split(text)).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() and sentence for sentence in split(text))
    if text.strip():
        assert "".join(keep(text)) in (text, text.lstrip())


def test_each_sentence_is_a_sequence_of_its_document(tmp_path: Path, write_lines: Callable[..., Path]) -> None:
    path = write_lines({"text": "One. Two."}, {"text": ""}, {"text": ["Three. Four.", "Five"]})
    run(path, tmp_path / "out", sentences=SentenceSpec(), append_eod=True)
    dataset = IndexedDataset(tmp_path / "out_text_sentence")
    assert dataset.index.document_indices.tolist() == [0, 2, 2, 5]
    engine = open_tokenizer(TokenizerSpec(path=GOLDEN / "tokenizer")).engine
    expected = [engine.encode([text])[0].tolist() for text in ("One.", "Two.", "Three.", "Four.", "Five")]
    assert [dataset[place].tolist() for place in range(5)] == [
        expected[0], [*expected[1], 0], expected[2], expected[3], [*expected[4], 0],
    ]  # fmt: skip
    metadata = read_metadata(tmp_path / "out_text_sentence")
    assert metadata is not None
    assert (metadata.options["sentences"], metadata.options["language"]) == ("built-in", "english")


def test_what_cannot_be_done_says_what_can(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--lang klingon: the built-in rules know english, en, chinese"):
        sentence_splitter(SentenceSpec(language="klingon"))
    pytest.importorskip("nltk")
    with pytest.raises(ConfigError, match="has no tokenizers/punkt_tab/english"):
        sentence_splitter(SentenceSpec(punkt=tmp_path))


@pytest.fixture
def punkt(tmp_path: Path) -> Path:
    """NLTK data that knows one abbreviation."""
    folder = tmp_path / "data" / "tokenizers" / "punkt_tab" / "english"
    folder.mkdir(parents=True)
    (folder / "abbrev_types.txt").write_text("qx\n")
    for name in ("collocations.tab", "sent_starters.txt", "ortho_context.tab"):
        (folder / name).write_text("")
    return tmp_path / "data"


@pytest.mark.parametrize("keep", [False, True])
def test_punkt_cuts_as_its_data_says(keep: bool, punkt: Path) -> None:
    pytest.importorskip("nltk")
    split = sentence_splitter(SentenceSpec(punkt=punkt, keep_newlines=keep))
    white = "\n" if keep else ""
    assert split("One Qx. Smith left.\nTwo came.") == [f"One Qx. Smith left.{white}", "Two came."]
