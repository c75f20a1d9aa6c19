"""Runs whose fast engine gives other ids than the library: found before, and found on the way."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from runs import GOLDEN, assert_golden, run

from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.tokenization.engines import Encoded, Engine, flatten, selection
from mindformers_megatron.tokenization.engines.guard import EngineMismatchError, GuardedEngine
from mindformers_megatron.tokenization.tokenizer import Tokenizer, TokenizerSpec, open_tokenizer

pytest.importorskip("gigatoken")


class WrongAbout:
    """An engine that gives the ids of texts with something in them backwards."""

    name, version = "gigatoken", "0"

    def __init__(self, something: str, engine: Engine) -> None:
        self._something, self._engine = something, engine

    def encode(self, texts: Sequence[str]) -> Encoded:
        lists = [self._engine.encode([text])[0].tolist() for text in texts]
        wrong = [self._something in text for text in texts]
        return flatten([ids[::-1] if is_wrong else ids for ids, is_wrong in zip(lists, wrong, strict=True)])


def take(monkeypatch: pytest.MonkeyPatch, something: str) -> None:
    def loaded(tokenizer: Tokenizer, name: str, by_threads: bool) -> Engine:
        return WrongAbout(something, open_tokenizer(TokenizerSpec(path=Path(tokenizer.name))).engine)

    monkeypatch.setattr(selection, "_loaded", loaded)
    monkeypatch.setattr(selection, "GuardedEngine", partial(GuardedEngine, audited=1.0))


def test_an_engine_that_fails_the_self_check_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take(monkeypatch, "def f(x)")
    with pytest.raises(EngineMismatchError, match=r"gigatoken 0 gives other ids than hf .*--on-mismatch hf"):
        run(GOLDEN / "input.jsonl", tmp_path / "out", engine="gigatoken")
    assert list(tmp_path.iterdir()) == []
    for options in ({"engine": "gigatoken", "on_mismatch": "hf"}, {"engine": "auto"}):
        report = run(GOLDEN / "input.jsonl", tmp_path / "out", **options)
        assert (report.engine, "gigatoken was refused" in report.engine_verdict) == ("hf", True)
        assert_golden(tmp_path / "out")


def test_other_ids_found_on_the_way_end_the_run_or_begin_it_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl"
    first = b'{"text": "one"}\n' * 30_000
    path.write_bytes(first + b'{"text": "the word zebra"}\n')
    take(monkeypatch, "zebra")
    with pytest.raises(EngineMismatchError, match="'the word zebra'"):
        run(path, tmp_path / "out")
    report = run(path, tmp_path / "out", on_mismatch="hf")
    assert report.engine == "hf"
    run(path, tmp_path / "true", engine="hf")
    found, expected = ((tmp_path / f"{name}_text_document.bin").read_bytes() for name in ("out", "true"))
    assert found == expected
    metadata = read_metadata(tmp_path / "out_text_document")
    assert metadata is not None
    assert metadata.tokenizer.engine == "hf"
    assert "zebra" in str(metadata.tokenizer.engine_verdict)


def test_other_ids_are_told_rather_than_what_is_wrong_behind_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "input.jsonl"
    first = b'{"text": "one"}\n' * 30_000
    # In other batches of the one part.
    path.write_bytes(first + b'{"text": "the word zebra"}\n' + first * 4 + b'{"text": 1}\n')
    take(monkeypatch, "zebra")
    with pytest.raises(EngineMismatchError, match="'the word zebra'"):
        run(path, tmp_path / "out")
