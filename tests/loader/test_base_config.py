"""A YAML based on others is read as MindFormers reads it, before anything looks at its settings."""

import pytest
import yaml

from mindformers_megatron.errors import ConfigError, DataError

pytestmark = pytest.mark.train


@pytest.fixture
def read(tmp_path):
    from mindformers.tools.register import MindFormerConfig

    from mindformers_megatron.settings.yaml_file import read_config

    def write_and_read(*overrides, **files):
        for name, content in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(yaml.safe_dump(content))
        config = read_config(tmp_path / "run.yaml", overrides)
        if not overrides:
            assert config == MindFormerConfig._file2dict(str(tmp_path / "run.yaml"))
        return config

    return write_and_read


def test_mappings_are_merged_and_everything_else_is_replaced(read):
    base = {"model": {"size": 1, "kind": "llama"}, "callbacks": [{"type": "A"}, {"type": "B"}], "seed": 0}
    run = {"base_config": "parts/base.yaml", "model": {"size": 2}, "callbacks": [{"type": "C"}]}
    assert read(run=run, parts__base=base) == {
        "model": {"size": 2, "kind": "llama"},
        "callbacks": [{"type": "C"}],
        "seed": 0,
    }


def test_bases_are_found_beside_the_file_that_names_them(read):
    files = {"parts__base": {"base_config": "../root.yaml", "a": 1}, "root": {"b": 2}}
    assert read(run={"base_config": "parts/base.yaml"}, **files) == {"a": 1, "b": 2}


def test_of_several_bases_the_last_wins_and_the_file_itself_over_all(read):
    files = {"first": {"a": 1, "b": 1, "c": 1}, "second": {"b": 2, "c": 2}}
    assert read(run={"base_config": ["first.yaml", "second.yaml"], "c": 3}, **files) == {"a": 1, "b": 2, "c": 3}


def test_overrides_reach_what_a_base_says(read):
    base = {"callbacks": [{"steps": 5}]}
    assert read("callbacks.0.steps=7", run={"base_config": "base.yaml"}, base=base) == {"callbacks": [{"steps": 7}]}


def test_what_cannot_be_read_is_named(read):
    with pytest.raises(DataError, match=r"gone\.yaml: cannot be read"):
        read(run={"base_config": "gone.yaml"})
    with pytest.raises(ConfigError, match=r"run\.yaml: is its own base_config"):
        read(run={"base_config": "other.yaml"}, other={"base_config": "run.yaml"})
