"""``mfm trace``: what a step of a run was given, down to the documents; and where a document was seen."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.report.steps import Place, StepMap
    from mindformers_megatron.report.trace import TracedSample
    from mindformers_megatron.sampling.plan import SamplePlan

# Samples that are held in memory together.
_AT_ONCE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm trace``."""
    parser.add_argument("--config", required=True, type=Path, help="the run's YAML, or its output folder")
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
    from mindformers_megatron.report.run import open_run
    from mindformers_megatron.tokenization.decoding import open_decoder

    _check(args)
    opened = open_run(args.config, args.overrides, state=args.state, ranks=args.ranks)
    plan, steps = opened.plan, opened.steps
    most = max(stretch.ranks for stretch in steps.stretches)
    if args.rank is not None and not 0 <= args.rank < most:
        raise ConfigError(f"--rank is {args.rank}; expected 0 to {most - 1} (--ranks says how many there are)")
    decode = open_decoder(args.tokenizer) if args.tokenizer else None
    notes = list(opened.notes)
    if args.document:
        if args.until is None and not opened.reached:
            raise ConfigError("--document: no data state tells how far the run has come; say so with --until STEP")
        until = args.until or steps.place_of(opened.reached - 1).step
        lines = seen_places(plan, steps, args.document, until, args.rank, args.json)
    else:
        places = list(_places(args, steps, notes))
        lines = new_documents(plan, places, args.json) if args.new else traced(plan, places, decode, args.json)
    for note in notes:
        print(f"mfm trace: {note}", file=sys.stderr)
    for line in lines:
        print(line)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuses what would be asked for in vain."""
    if args.document and args.new:
        raise ConfigError("--new is about steps or samples; leave it out with --document")
    if args.until is not None and not args.document:
        raise ConfigError("--until goes with --document; steps in a row are --step S:T")
    for name in ("until", "ranks"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ConfigError(f"--{name} is {getattr(args, name)}; expected 1 or more")


def traced(
    plan: "SamplePlan", places: Sequence["Place"], decode: Callable[[Sequence[int]], str] | None, as_json: bool
) -> Iterator[str]:
    """The samples at places, each as a text of several lines or as JSON."""
    import numpy as np

    from mindformers_megatron.report.trace import trace_samples

    for first in range(0, len(places), _AT_ONCE):
        some = places[first : first + _AT_ONCE]
        samples = np.array([place.sample for place in some], dtype=np.int64)
        for place, sample in zip(some, trace_samples(plan, samples), strict=True):
            plain = _plain(place, sample, decode)
            yield json.dumps(plain, ensure_ascii=False) if as_json else "\n".join(_text(plain))


def new_documents(plan: "SamplePlan", places: Sequence["Place"], as_json: bool) -> Iterator[str]:
    """The documents in samples that no earlier sample held."""
    import numpy as np

    from mindformers_megatron.report.trace import first_seen, origins_of, trace_samples

    samples = np.array([place.sample for place in places], dtype=np.int64)
    new = first_seen(plan, list(trace_samples(plan, samples)), int(samples.min()))
    origins = {
        corpus: origins_of(plan.corpora[corpus].dataset, sorted(one for name, one in new if name == corpus))
        for corpus in dict.fromkeys(name for name, _ in new)
    }
    for name, document in new:
        origin = origins[name].get(document)
        plain = {"corpus": name, "document": document, "origin": origin}
        yield json.dumps(plain, ensure_ascii=False) if as_json else f"{name}:{document}  {_origin(origin)}".rstrip()


def seen_places(
    plan: "SamplePlan", steps: "StepMap", wanted: str, until: int, rank: int | None, as_json: bool
) -> Iterator[str]:
    """Where a document was seen in steps 1 to ``until``, on one rank or on all."""
    from mindformers_megatron.report.trace import document_extent, find_document, origin_of, places_of_document

    on_rank = "" if rank is None else f" on rank {rank}"
    for name, document in find_document(plan, wanted):
        dataset = plan.corpora[name].dataset
        begin, end = document_extent(dataset, document)
        found = places_of_document(plan, steps, name, document, until)
        seen = [place for place in found if rank is None or place.rank == rank]
        origin = origin_of(dataset, document)
        if as_json:
            places = [place.to_plain() for place in seen]
            plain = {"corpus": name, "document": document, "origin": origin, "seen": places}
            yield json.dumps(plain, ensure_ascii=False)
            continue
        yield f"{name}:{document}  {_origin(origin)}".rstrip()
        samples = {0: "no sample", 1: "1 sample"}.get(len(seen), f"{len(seen):,} samples")
        yield f"  {end - begin:,} tokens, in {samples} of steps 1 to {until}{on_rank}"
        for one in seen:
            yield f"  step {one.step}, rank {one.rank}, row {one.row} (sample {one.sample})"


def _places(args: argparse.Namespace, steps: "StepMap", notes: list[str]) -> Iterator["Place"]:
    """The rows asked for; what is to be known of their steps is added to ``notes``."""
    first, last = _range(args.step or args.sample, "--step" if args.step else "--sample")
    if args.sample:
        places = [steps.place_of(sample) for sample in range(first, max(last, first + 1))]
    elif first == last:
        places = steps.places(first)
    else:
        # Numbers that were left out when steps became smaller are no mistake in a range.
        numbers = [step for step in range(first, last + 1) if steps.times(step)] or [first]
        places = sorted((place for step in numbers for place in steps.places(step)), key=lambda place: place.sample)
    for step in dict.fromkeys(place.step for place in places) if args.step else ():
        times = [f"{samples[0]} to {samples[-1]}" for samples in steps.times(step)]
        if len(times) > 1:
            notes.append(f"{len(times)} steps were counted as step {step}, of samples {' and '.join(times)}")
    return (place for place in places if args.rank is None or place.rank == args.rank)


def _range(text: str, option: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not first.isdigit() or (colon and not last.isdigit()) or (colon and int(last) < int(first)):
        raise ConfigError(f"{option} is {text!r}; expected a number, or first:last")
    return int(first), int(last) if colon else int(first)


def _plain(place: "Place", sample: "TracedSample", decode: Callable[[Sequence[int]], str] | None) -> dict[str, Any]:
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
        **place.to_plain(),
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
