"""``mfm demo``."""

import argparse
import json
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("--dir", type=Path, default=Path("demo"), help="working folder (default: ./demo)")
    parser.add_argument("--steps", type=int, default=60, help="training steps of each run (default: 60)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command; 1 if the runs differ or a share is off."""
    from mindformers_megatron.demo.run import run_demo
    from mindformers_megatron.demo.table import as_json, render

    outcome = run_demo(args.dir, args.steps, _Stderr(args.steps))
    print(json.dumps(as_json(outcome), indent=2) if args.json else render(outcome))
    return 0 if outcome.proved else 1


class _Stderr:
    """Progress on stderr: a line for each stage, and one for every few steps."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def stage(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def step(self, step: int, loss: float) -> None:
        if step % 10 == 0 or step == self._steps:
            print(f"  step {step} of {self._steps}, loss {loss:.3f}", file=sys.stderr, flush=True)
