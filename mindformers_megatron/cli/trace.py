"""``mfm trace``: what a step of a run was given, down to the documents; and where a document was seen."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.report.steps import StepMap
    from mindformers_megatron.report.trace import TracedSample
    from mindformers_megatron.sampling.plan import SamplePlan

COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm trace``."""
    parser.add_argument("--config", required=True, type=Path, help="the run's YAML")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--step", metavar="S[:T]", help="a step, counted from 1, or steps S to T")
    what.add_argument("--sample", metavar="I[:J]", help="a sample, counted from 0, or samples I to J - 1")
    what.add_argument("--document", metavar="ID", help="where a document was seen: its id, or corpus:number")
    parser.add_argument("--rank", type=int, help="only the rows of this rank")
    parser.add_argument("--ranks", type=int, help="ranks that share a step (default: the YAML's data_parallel)")
    parser.add_argument("--new", action="store_true", help="only the documents that no earlier step saw, once each")
    parser.add_argument("--until", type=int, metavar="STEP", help="with --document: steps to look at (default: all)")
    parser.add_argument("--state", type=Path, help="a data state, or a folder of them (default: the run's output_dir)")
    parser.add_argument("--tokenizer", help="a tokenizer's folder or file, to show text")
    parser.add_argument("--json", action="store_true", help="for programs: a JSON object a line")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for mfm train")


def run(args: argparse.Namespace) -> int:
    """Prints samples with their documents, or the places where a document was seen."""
    from mindformers_megatron.tokenization.decoding import open_decoder

    plan, steps, ranks = open_run(args.config, args.overrides, args.state, args.ranks)
    if args.rank is not None and not 0 <= args.rank < ranks:
        raise ConfigError(f"--rank is {args.rank}; expected 0 to {ranks - 1} (--ranks says how many there are)")
    decode = open_decoder(args.tokenizer) if args.tokenizer else None
    if args.document:
        until = args.until or max(anchor.step for anchor in steps.anchors)
        if not until:
            raise ConfigError("--document: no data state tells how far the run has come; say so with --until STEP")
        lines = seen_places(plan, steps, ranks, args.document, until, args.json)
    else:
        places = list(_places(args, steps, ranks))
        lines = new_documents(plan, places, args.json) if args.new else traced(plan, places, decode, args.json)
    for line in lines:
        print(line)
    return 0


def open_run(
    config_path: Path, overrides: Sequence[str], state: Path | None, ranks: int | None
) -> tuple["SamplePlan", "StepMap", int]:
    """Opens the plan of a run as its last data state knows it: (plan, steps, ranks)."""
    from dataclasses import replace

    from mindformers_megatron.report.steps import StepMap
    from mindformers_megatron.sampling.plan import SamplePlan
    from mindformers_megatron.settings.run_config import loader_options, our_loaders
    from mindformers_megatron.settings.saved_state import NAME, load_saved_state
    from mindformers_megatron.settings.yaml_file import read_config

    config = read_config(config_path, overrides)
    if "train_dataset" not in dict(our_loaders(config)):
        raise ConfigError(f"{config_path}: train_dataset.data_loader names no loader of this package")
    options = loader_options("train_dataset", config["train_dataset"])
    if ranks is None:
        parallel = config.get("parallel_config") or {}
        ranks = int(parallel.get("data_parallel") or 1) if config.get("use_parallel") else 1
    rows = (config.get("runner_config") or {}).get("batch_size") or options.rows_per_step
    root = state or Path(config.get("output_dir") or "output")
    files = [root] if root.is_file() else sorted(root.rglob(f"*{NAME}"))
    if state is not None and not files:
        raise ConfigError(f"--state {state}: no data state there")
    saved = sorted((load_saved_state(file) for file in files), key=lambda one: (one.step, str(one.path)))
    steps = StepMap.of(saved, int(rows) * ranks)
    spec = replace(options.plan, columns=COLUMNS)
    return SamplePlan(spec, saved[-1].state if saved else None, "continue"), steps, ranks


def traced(
    plan: "SamplePlan", places: Sequence[dict[str, int]], decode: Callable[[Sequence[int]], str] | None, as_json: bool
) -> Iterator[str]:
    """The samples at places, each as a text of several lines or as JSON."""
    import numpy as np

    from mindformers_megatron.report.trace import trace_samples

    samples = np.array([place["sample"] for place in places], dtype=np.int64)
    for place, sample in zip(places, trace_samples(plan, samples), strict=True):
        plain = _plain(place, sample, decode)
        yield json.dumps(plain, ensure_ascii=False) if as_json else "\n".join(_text(plain))


def new_documents(plan: "SamplePlan", places: Sequence[dict[str, int]], as_json: bool) -> Iterator[str]:
    """The documents in samples that no earlier sample held."""
    import numpy as np

    from mindformers_megatron.report.trace import first_seen, origin_of, trace_samples

    samples = np.array([place["sample"] for place in places], dtype=np.int64)
    for name, document in first_seen(plan, list(trace_samples(plan, samples)), int(samples.min())):
        origin = origin_of(plan.corpora[name].dataset, document)
        plain = {"corpus": name, "document": document, "origin": origin}
        yield json.dumps(plain, ensure_ascii=False) if as_json else f"{name}:{document}  {_origin(origin)}".rstrip()


def seen_places(
    plan: "SamplePlan", steps: "StepMap", ranks: int, wanted: str, until: int, as_json: bool
) -> Iterator[str]:
    """Where a document was seen in steps 1 to ``until``."""
    from mindformers_megatron.report.trace import document_extent, find_document, origin_of

    end_of_run = int(steps.samples_of(until)[-1]) + 1
    for name, document in find_document(plan, wanted):
        dataset = plan.corpora[name].dataset
        begin, end = document_extent(dataset, document)
        samples = plan.samples_holding(name, begin, end, end_of_run).tolist() if end > begin else []
        seen = []
        for sample in samples:
            step = steps.step_of(sample)
            row = sample - int(steps.samples_of(step)[0])
            seen.append({"step": step, "rank": row % ranks, "row": row // ranks, "sample": sample})
        origin = origin_of(dataset, document)
        if as_json:
            yield json.dumps({"corpus": name, "document": document, "origin": origin, "seen": seen}, ensure_ascii=False)
            continue
        yield f"{name}:{document}  {_origin(origin)}".rstrip()
        yield f"  {end - begin:,} tokens, in {len(seen)} samples of steps 1 to {until}"
        for one in seen:
            yield f"  step {one['step']}, rank {one['rank']}, row {one['row']} (sample {one['sample']})"


def _places(args: argparse.Namespace, steps: "StepMap", ranks: int) -> Iterator[dict[str, int]]:
    """The rows asked for: their step, rank, row of the rank's batch, and sample."""
    first, last = _range(args.step or args.sample, "--step" if args.step else "--sample")
    if args.sample:
        for sample in range(first, max(last, first + 1)):
            step = steps.step_of(sample)
            row = sample - int(steps.samples_of(step)[0])
            yield {"step": step, "rank": row % ranks, "row": row // ranks, "sample": sample}
        return
    for step in range(first, last + 1):
        for row, sample in enumerate(steps.samples_of(step).tolist()):
            if args.rank is None or row % ranks == args.rank:
                yield {"step": step, "rank": row % ranks, "row": row // ranks, "sample": sample}


def _range(text: str, option: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not first.isdigit() or (colon and not last.isdigit()) or (colon and int(last) < int(first)):
        raise ConfigError(f"{option} is {text!r}; expected a number, or first:last")
    return int(first), int(last) if colon else int(first)


def _plain(
    place: dict[str, int], sample: "TracedSample", decode: Callable[[Sequence[int]], str] | None
) -> dict[str, Any]:
    tokens = sample.tokens.tolist()
    documents = []
    for part in sample.parts:
        own = tokens[part.column : part.column + part.length]
        documents.append(
            {
                "document": part.document,
                "columns": [part.column, part.column + part.length],
                "tokens_of_document": [part.skipped, part.skipped + part.length, part.total],
                "origin": part.origin,
                **({} if decode is None else {"text": decode(own)}),
            }
        )
    return {
        **place,
        "corpus": sample.corpus,
        "path": sample.path,
        "epoch": sample.epoch,
        "cursor": sample.cursor,
        "tokens": tokens,
        **{name: column.tolist() for name, column in sample.columns.items()},
        "documents": documents,
    }


def _text(plain: dict[str, Any]) -> Iterator[str]:
    yield (
        f"step {plain['step']}, rank {plain['rank']}, row {plain['row']}: sample {plain['sample']}, "
        f"{plain['corpus']} epoch {plain['epoch']}, its sample {plain['cursor']}"
    )
    mask = plain["loss_mask"]
    yield f"  loss on {sum(mask)} of {len(mask)} inputs, positions up to {max(plain['position_ids'])}"
    for part in plain["documents"]:
        first, behind = part["columns"]
        skipped, reached, total = part["tokens_of_document"]
        whole = "whole" if (skipped, reached) == (0, total) else f"its tokens {skipped} to {reached - 1} of {total}"
        place = f"columns {first} to {behind - 1}: document {part['document']}, {whole}"
        yield f"  {place}  {_origin(part['origin'])}".rstrip()
        if "text" in part:
            yield from (f"    | {line}" for line in part["text"].splitlines() or [""])


def _origin(origin: dict[str, Any] | None) -> str:
    if origin is None:
        return ""
    named = f"{origin['id']} " if origin["id"] is not None else ""
    return f"{named}({origin['source']}, {origin['file']}:{origin['line']})"
