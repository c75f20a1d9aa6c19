"""The demo from first to last."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from mindformers_megatron.demo.collect import collect, write_jsonl
from mindformers_megatron.demo.compare import Step, compare, read_steps
from mindformers_megatron.demo.config import CORPORA, Schedule, write_config
from mindformers_megatron.demo.delivered import find_shares
from mindformers_megatron.demo.folder import DemoFolder
from mindformers_megatron.demo.outcome import Outcome
from mindformers_megatron.demo.tokenizer import train_tokenizer
from mindformers_megatron.demo.training import train
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.tokenization.preprocess import PreprocessSpec, preprocess
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec

VOCAB_SIZE = 4096


class Progress(Protocol):
    """Tells people where the demo is."""

    def stage(self, text: str) -> None:
        """A new part of the work begins, or has something to say."""

    def step(self, step: int, loss: float) -> None:
        """A training run has made a step."""


def run_demo(root: Path, steps: int, progress: Progress) -> Outcome:
    """Goes the whole way, from text to the comparison.

    Args:
        root: the working folder; see ``DemoFolder.claim``.
        steps: training steps of each run.
        progress: told what is being done.

    Raises:
        ConfigError: MindSpore or MindFormers is not installed, the folder is not the demo's own, or there are too few
            steps.
        DataError: this Python has no sources to learn from.
        ChildProcessError: a training run failed.
    """
    for package in ("mindspore", "mindformers"):
        if find_spec(package) is None:
            raise ConfigError(
                f"{package} is not installed, and the demo trains with it: pip install 'mindformers-megatron[train]'"
            )
    schedule = Schedule(steps)
    folder = DemoFolder.claim(root)
    prepare(folder, progress)
    interrupted = folder.interrupted
    for run in (folder.straight, interrupted):
        write_config(run, schedule, {name: folder.pair(name) for name in CORPORA}, VOCAB_SIZE)

    progress.stage(f"training {steps} steps straight through: mfm train --config {folder.straight.config}")
    train(folder.straight, folder.straight.folder / "train.log", progress.step)
    command = f"mfm train --config {interrupted.config}"
    progress.stage(f"training again, to be killed after step {schedule.kill_after}: {command}")
    train(interrupted, interrupted.folder / "train.log", progress.step, kill_after=schedule.kill_after)
    before = interrupted.steps.rename(interrupted.folder / "steps-until-the-kill.jsonl")
    progress.stage(f"killed (SIGKILL); the same command again: {command}")
    train(interrupted, interrupted.folder / "train-resumed.log", progress.step)

    straight = read_steps(folder.straight.steps)
    comparison = compare(straight, read_steps(before), read_steps(interrupted.steps), steps)
    progress.stage("looking up every row that the models were given in the corpora")
    corpora = {name: IndexedDataset(folder.pair(name)) for name in CORPORA}
    return Outcome(
        comparison=comparison,
        straight=find_shares(_rows(straight), corpora, CORPORA),
        resumed=find_shares(_rows(comparison.final()), corpora, CORPORA),
    )


def prepare(folder: DemoFolder, progress: Progress) -> None:
    """Makes the text, the tokenizer and the corpora."""
    progress.stage("collecting text from this Python's library and packages")
    texts = {name: list(collect(name)) for name in CORPORA}
    for name, found in texts.items():
        count = write_jsonl(found, name, folder.text(name))
        size = folder.text(name).stat().st_size
        progress.stage(f"  {name}: {count:,} documents, {size / 1e6:.1f} MB")
    progress.stage(f"training a tokenizer of {VOCAB_SIZE:,} ids")
    train_tokenizer((text.text for found in texts.values() for text in found), VOCAB_SIZE, folder.tokenizer)
    progress.stage("tokenizing and packing")
    for name in CORPORA:
        spec = PreprocessSpec(
            inputs=[folder.text(name)],
            output_prefix=folder.output_prefix(name),
            tokenizer=TokenizerSpec(path=folder.tokenizer),
            append_eod=True,
        )
        report = preprocess(spec)
        progress.stage(f"  {folder.pair(name)}.bin: {report.counts.tokens:,} tokens")


def _rows(steps: Iterable[Step]) -> Iterator[tuple[int, ...]]:
    return (row for step in steps for row in step.rows)
