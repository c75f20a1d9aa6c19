"""What a recipe may say, and what is said about one that is wrong."""

from pathlib import Path
from typing import Any

import pytest

from mindformers_megatron.corpus.prepare.exact import ExactDedup
from mindformers_megatron.corpus.prepare.near import NearDedup
from mindformers_megatron.corpus.recipe_file import read_recipe
from mindformers_megatron.corpus.registry import DEFAULT_CHAIN
from mindformers_megatron.errors import ConfigError

LEAST = {"output": "out", "sources": {"web": "web.jsonl"}}


def test_the_least_recipe_reads_and_keeps() -> None:
    recipe = read_recipe(LEAST, "r.yaml")
    assert recipe.output == Path("out")
    assert [(source.name, source.source.paths, source.priority) for source in recipe.sources] == [
        ("web", ("web.jsonl",), 0)
    ]
    assert recipe.steps == () and recipe.tokenizer is None and recipe.rejects_allowed == 0


def test_sources_keep_their_order_which_is_their_priority() -> None:
    recipe = read_recipe({**LEAST, "sources": {"b": "b.jsonl", "a": ["a.jsonl", "c.jsonl"]}}, "r.yaml")
    assert [(source.name, source.priority) for source in recipe.sources] == [("b", 0), ("a", 1)]


def test_steps_are_names_or_names_with_options() -> None:
    steps: list[Any] = ["default", {"exact_dedup": {"unit": "line"}}, {"near_dedup": {"threshold": 0.8}}, "unicode"]
    recipe = read_recipe({**LEAST, "steps": steps}, "r.yaml")
    names = [step.name for step in recipe.steps]
    assert names == [*DEFAULT_CHAIN, "exact_dedup", "near_dedup", "unicode"]
    exact, near = recipe.steps[-3:-1]
    assert isinstance(exact, ExactDedup) and exact.options.unit == "line"
    assert isinstance(near, NearDedup) and near.options.threshold == 0.8


def test_paths_take_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAW", "/data/raw")
    recipe = read_recipe(
        {"output": "${RAW}/out", "sources": {"web": ["${RAW}/a.jsonl", "${PYTHON_LIBRARY}/ast.py"]}}, "r.yaml"
    )
    assert recipe.output == Path("/data/raw/out")
    assert recipe.sources[0].source.paths[0] == "/data/raw/a.jsonl"
    assert Path(recipe.sources[0].source.paths[1]).is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ouput": 1}, "r.yaml: unknown option 'ouput'; did you mean output?"),
        ({"sources": None}, "r.yaml: sources is missing"),
        ({"sources": ["a"]}, "sources: ['a']; expected sources, as name: options"),
        ({"sources": {"a": None}}, "sources.a: paths is None; expected a file, folder or pattern"),
        ({"sources": {"a": {"path": "x"}}}, "sources.a: paths is None"),
        ({"sources": {"a": {"paths": "x", "text_ky": "t"}}}, "a: unknown option 'text_ky'; did you mean text_key"),
        ({"sources": {"a": {"paths": "x", "name": "b"}}}, "a source is called what stands before its options"),
        ({"sources": {"a/b": "x"}}, "it becomes part of file names"),
        ({"sources": {"a": {"paths": "x", "format": "csv"}}}, "format is 'csv'; expected one of: jsonl"),
        ({"sources": {"a": "${NO_SUCH_THING}/x"}}, "${NO_SUCH_THING} in '${NO_SUCH_THING}/x' is not set"),
        ({"sources": {"a": {"paths": "x", "priority": -1}}}, "priority is -1; expected a whole number ≥ 0"),
        ({"steps": "unicode"}, "steps: 'unicode'; expected a list of steps"),
        ({"steps": ["unicod"]}, "steps: 1: unknown step 'unicod'; did you mean unicode?"),
        ({"steps": ["near_dedupe"]}, "did you mean near_dedup?"),
        ({"steps": ["unicode", {"near_dedup": {"treshold": 1}}]}, "2: step near_dedup: unknown option 'treshold'"),
        ({"steps": [{"near_dedup": {"threshold": 2.0}}]}, "threshold 2.0; give one above 0, at most 1"),
        ({"steps": [{"unicode": {"sources": ["wob"]}}]}, "unknown source 'wob'; did you mean web?"),
        ({"steps": ["decontaminate"]}, "there are no evaluation sets"),
        ({"evaluation": {"quiz": "q.jsonl"}}, "no step looks for them; add decontaminate"),
        ({"evaluation": ["q"]}, "expected evaluation sets, as name: options"),
        ({"splits": {"train": 0.5}}, "splits: 'train' cannot be sized"),
        ({"splits": {"test": 2.5}}, "give a share between 0 and 1, or a count"),
        ({"splits": {"a/b": 1}}, "becomes part of file names"),
        ({"splits": 3}, "splits: sizes is 3; expected a mapping"),
        ({"tokenizer": {}}, "tokenizer: nothing given; give one of path, vocab_file, train"),
        ({"tokenizer": {"path": "x", "train": 1000}}, "path and train given"),
        ({"tokenizer": {"train": 100}}, "give 258 ids or more"),
        ({"packing": {"seq_length": 0}}, "seq_length is 0; give 1 or more"),
        ({"packing": {"engine": "fast"}}, "engine is 'fast'; expected one of"),
        ({"on_error": "ignore"}, "on_error is 'ignore'; give fail, skip, or a number"),
        ({"part_mb": "64"}, "part_mb is '64'; expected a number"),
        ({"memory_gb": True}, "memory_gb is True; expected a number"),
        ({"training": {"settings": 3}}, "settings is 3; expected settings"),
        ({"training": {"base": "x"}}, "training: unknown option 'base'"),
        ({"seed": 1.5}, "seed is 1.5; expected a whole number"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_recipe({**LEAST, **changes}, "r.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("r.yaml") and "\n" not in str(caught.value)
