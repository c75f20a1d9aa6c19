"""What is written about a recipe that was carried out."""

from pathlib import Path

import orjson

from mindformers_megatron.corpus.jobs import begin, finished, mark
from mindformers_megatron.corpus.prepare.contamination import Decontaminate
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.outcome import Outcome
from mindformers_megatron.corpus.prepare.page import page
from mindformers_megatron.corpus.prepare.statistics import Values, statistics
from mindformers_megatron.corpus.prepare.tables import write_contamination_table, write_duplicate_table
from mindformers_megatron.corpus.prepare.training import training_yaml
from mindformers_megatron.format.atomic import write_atomically


def write_report(outcome: Outcome) -> Values:
    """Writes tables, statistics, the page for people and the training YAML; returns the statistics."""
    folder = OutputFolder(outcome.recipe.output)
    for before, stage in zip(outcome.stages, outcome.stages[1:], strict=False):
        path = folder.table(stage.stage.name)
        home = folder.found(stage.stage.name)
        key = stage.found["key"]
        if finished(home, "table", key, (path,)) is None:
            begin(home, "table")
            is_contamination = isinstance(stage.stage.incoming, Decontaminate)
            write = write_contamination_table if is_contamination else write_duplicate_table
            write(home, before.shards, path, outcome.recipe.memory_bytes)
            mark(home, "table", key, {})
    values = statistics(outcome)
    write_atomically(folder.statistics, orjson.dumps(values, option=orjson.OPT_INDENT_2))
    _write_text(folder.report, page(values))
    if outcome.corpora:
        _write_text(folder.training, training_yaml(outcome))
    return values


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, text.encode(errors="backslashreplace"))
