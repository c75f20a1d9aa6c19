"""``mfm verify``: is a pair sound, and if not, what is damaged."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.cli.pair_arguments import named_pairs
from mindformers_megatron.cli.scanning import add_workers, scanning

if TYPE_CHECKING:
    from mindformers_megatron.format.verify.findings import Verdict
    from mindformers_megatron.tokenization.decoding import Decoder

_CHARACTERS = 160


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "pairs", nargs="+", metavar="PREFIX", help="prefix, .bin or .idx of a pair, or a folder of pairs"
    )
    parser.add_argument("--full", action="store_true", help="read every byte, not only what takes no time")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="ids are below it (as the metadata says)")
    parser.add_argument("--eod-id", type=int, metavar="ID", help="documents end with it (as the metadata says)")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="PATH", help="a tokenizer's folder or file; ids are compared with its own"
    )
    parser.add_argument(
        "--sources",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="DIR",
        help="tokenize all documents anew from the raw text that docs.parquet names, found from DIR on (here), and "
        "compare; needs --full and --tokenizer",
    )
    parser.add_argument("--decode", type=int, metavar="N", help="show the text of N random documents")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which documents those are (0)")
    parser.add_argument("--multimodal", action="store_true", help="the pairs hold a mode for each sequence")
    add_workers(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command: 0 where all pairs are sound, 1 where one is damaged."""
    from mindformers_megatron.errors import ConfigError
    from mindformers_megatron.format.verify.pair import bytes_looked_at, verify_pair
    from mindformers_megatron.tokenization.decoding import open_decoder

    if (args.decode is not None or args.sources is not None) and args.tokenizer is None:
        raise ConfigError("--decode and --sources need a tokenizer; give it as --tokenizer")
    if args.sources is not None and not args.full:
        raise ConfigError("--sources reads everything; give --full too")
    for name in ("vocab_size", "decode"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; give 1 or more")
    decode = open_decoder(args.tokenizer) if args.decode else None
    prefixes = named_pairs(args.pairs)
    vocab_size = args.vocab_size or (_vocab_size(args.tokenizer, prefixes) if args.tokenizer else None)
    total = sum(map(bytes_looked_at, prefixes)) if args.full else 0
    reports, sound, compared = [], True, args.sources is not None
    with scanning("verifying", total, args.workers) as run_tasks:
        for prefix in prefixes:
            verdict = verify_pair(
                prefix,
                full=args.full,
                vocab_size=vocab_size,
                eod_id=args.eod_id,
                multimodal=args.multimodal,
                run=run_tasks,
            )
            if compared and verdict.readable:
                verdict = _compared(verdict, args.tokenizer, args.sources)
            sound &= verdict.sound
            texts = [] if decode is None else _texts(verdict, decode, args.decode, args.seed)
            reports.append((verdict, texts))
    if args.json:
        print(json.dumps([{**verdict.to_json(), "texts": texts} for verdict, texts in reports], indent=2))
    else:
        print("\n".join(line for verdict, texts in reports for line in _lines(verdict, texts, compared=compared)))
    return 0 if sound else 1


def _compared(verdict: "Verdict", tokenizer: Path, folder: Path) -> "Verdict":
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.tokenization.retokenize import Retokenizer, compare_with_sources, raw_bytes

    # Raw files are read twice: for their hash, and for their records.
    with CopyProgress("comparing", 2 * raw_bytes(verdict.prefix)) as progress:
        return compare_with_sources(verdict, Retokenizer(verdict.prefix, tokenizer, folder, progress))


def _lines(verdict: "Verdict", texts: list[dict[str, Any]], *, compared: bool) -> list[str]:
    from mindformers_megatron.format.paths import bin_path, idx_path
    from mindformers_megatron.format.verify.spans import size_of

    counts = ""
    if verdict.documents is not None:
        counts = f" ({verdict.documents:,} documents, {verdict.tokens:,} tokens, {verdict.dtype})"
    if not verdict.readable and not any(path(verdict.prefix).exists() for path in (bin_path, idx_path)):
        state = "not there"
    elif not verdict.sound:
        state = "damaged"
    elif verdict.full:
        state = "sound"
    else:
        state = "nothing wrong at first sight; --full reads all of it"
    lines = [f"{verdict.prefix}: {state}{counts}"]
    lines += [f"  {finding}" for finding in verdict.findings]
    shown: dict[str, int] = {}
    for finding in verdict.findings:
        shown[finding.kind] = shown.get(finding.kind, 0) + 1
    lines += [
        f"  {kind}: and {count - shown.get(kind, 0):,} more"
        for kind, count in verdict.counts.items()
        if count > shown.get(kind, 0)
    ]
    if damaged := size_of(verdict.damaged):
        lines.append(f"  damaged documents: {damaged:,} of {verdict.documents:,}; `mfm repair` writes a sound pair")
    notes = list(verdict.notes)
    if verdict.counts.get("checksum") and verdict.located and not compared:
        notes.append("an id that became another id shows only beside the raw text: give --tokenizer and --sources")
    lines += [f"  note: {note}" for note in notes]
    lines += [f"  document {text['document']:,}: {text['text']!r}" for text in texts]
    return lines


def _vocab_size(tokenizer: Path, prefixes: list[str]) -> int:
    """Ids of a tokenizer, which must be the one of the pairs where that is known."""
    from mindformers_megatron.errors import DataError
    from mindformers_megatron.format.metadata import read_metadata
    from mindformers_megatron.tokenization.same_tokenizer import require_same
    from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

    opened = open_tokenizer(TokenizerSpec(path=tokenizer))
    for prefix in prefixes:
        try:
            metadata = read_metadata(prefix)
        except DataError:
            continue
        if metadata is not None:
            require_same(opened, tokenizer, prefix, metadata)
    return opened.largest_id + 1


def _texts(verdict: "Verdict", decode: "Decoder", count: int, seed: int) -> list[dict[str, Any]]:
    """Random documents that are not damaged, as text."""
    import numpy as np

    from mindformers_megatron.format.documents import read_documents
    from mindformers_megatron.format.index import map_index
    from mindformers_megatron.format.verify.spans import numbers_of, within

    if not verdict.documents or not verdict.located or not (verdict.full or verdict.sound):
        return []
    index = map_index(verdict.prefix)
    drawn = np.random.default_rng(seed).choice(verdict.documents, min(count, verdict.documents), replace=False)
    texts = []
    for document in sorted(drawn.tolist()):
        if numbers_of(within(verdict.damaged, document, document + 1)).size:
            continue
        for batch in read_documents(index, document, document + 1):
            text = decode(batch.tokens[:_CHARACTERS].tolist())[:_CHARACTERS]
            texts.append({"document": document, "tokens": batch.tokens.size, "text": text})
    return texts
