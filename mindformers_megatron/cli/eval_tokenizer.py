"""``mfm eval-tokenizer``: tokenizers compared on a corpus."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.cli.text_inputs import Texts, add_text_arguments
from mindformers_megatron.errors import ConfigError, DataError

if TYPE_CHECKING:
    from mindformers_megatron.corpus.documents import Document
    from mindformers_megatron.tokenization.evaluation.codecs import Codec
    from mindformers_megatron.tokenization.evaluation.measure import Evaluation, LabelledText, Measures

_BATCH_BYTES = 1 << 19
_UNKNOWN = "–"
_SHOWN_SHARE = 0.005


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_text_arguments(parser, unit="paragraph")
    parser.add_argument(
        "--texts-per-source", type=int, metavar="N", help="look at the first N texts of each source (all)"
    )
    parser.add_argument(
        "--language-key", metavar="KEY", help="field with the language (language or lang, also in meta)"
    )
    parser.add_argument("--detect-languages", action="store_true", help="find out the language where no field says it")
    group = parser.add_argument_group("tokenizers")
    group.add_argument(
        "--tokenizer",
        nargs="+",
        required=True,
        metavar="PATH",
        help="folders with a tokenizer.json, such files, SentencePiece .model or .tiktoken files",
    )
    group.add_argument(
        "--vocab-sizes",
        nargs="+",
        type=int,
        default=[],
        metavar="N",
        help="each BPE also as if it had been trained to so many ids",
    )
    group = parser.add_argument_group("output")
    group.add_argument("--hidden-size", type=int, metavar="N", help="count the parameters of the embedding for it")
    group.add_argument("--untied", action="store_true", help="the output layer has an embedding of its own")
    group.add_argument("--json", action="store_true", help="print the result as JSON")
    group.add_argument("--plot", type=Path, metavar="FILE", help="draw it as .png, .svg or .pdf, too")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.report.tokenizer_plot import check_plot, plot_evaluations
    from mindformers_megatron.tokenization.evaluation.measure import evaluate

    for name in ("texts_per_source", "hidden_size"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {getattr(args, name)}; give 1 or more")
    if args.plot is not None:
        check_plot(args.plot)
    codecs = list(_codecs(args))
    texts = Texts(args, "evaluating", meta_keys=(args.language_key,) if args.language_key else ("language", "lang"))
    evaluations = evaluate(codecs, _batches(texts.documents(), args))
    if not evaluations[0].groups:
        raise DataError("there is no text to evaluate on")
    if args.plot is not None:
        plot_evaluations(evaluations, args.plot)
    tables = 2 if args.untied else 1
    hidden = None if args.hidden_size is None else args.hidden_size * tables
    print(
        json.dumps(_as_json(evaluations, hidden), indent=2, ensure_ascii=False)
        if args.json
        else _table(evaluations, hidden)
    )
    return 0


def _codecs(args: argparse.Namespace) -> "Iterator[Codec]":
    from mindformers_megatron.tokenization.evaluation.codecs import open_codec
    from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

    for path in args.tokenizer:
        codec = open_codec(TokenizerSpec(path=Path(path)))
        for size in sorted(args.vocab_sizes):
            try:
                yield codec.with_vocab_size(size)
            except ConfigError as error:
                # Others can be, and this one is worth comparing with them all the same.
                print(f"mfm eval-tokenizer: warning: {error}", file=sys.stderr)
        yield codec


def _batches(documents: "Iterator[Document]", args: argparse.Namespace) -> "Iterator[list[LabelledText]]":
    taken: dict[str, int] = {}
    batch: list[Document] = []
    size = 0
    for document in documents:
        count = taken[document.source] = taken.get(document.source, 0) + 1
        if not document.text or (args.texts_per_source is not None and count > args.texts_per_source):
            continue
        batch.append(document)
        size += len(document.text)
        if size >= _BATCH_BYTES:
            yield _labelled(batch, args)
            batch, size = [], 0
    if batch:
        yield _labelled(batch, args)


def _labelled(batch: "Sequence[Document]", args: argparse.Namespace) -> "list[LabelledText]":
    import numpy as np

    from mindformers_megatron.corpus.documents import utf8_bytes
    from mindformers_megatron.corpus.languages import identify
    from mindformers_megatron.corpus.words import split_words
    from mindformers_megatron.tokenization.evaluation.measure import LabelledText

    texts = [document.text for document in batch]
    words = np.diff(split_words(texts).offsets).tolist()
    languages = [_language(document, args.language_key) for document in batch]
    if args.detect_languages:
        found = iter(identify([text for text, language in zip(texts, languages, strict=True) if language is None]))
        languages = [next(found)[0] if language is None else language for language in languages]
    return [
        LabelledText(d.text, d.source, language or _UNKNOWN, count, utf8_bytes(d.text))
        for d, language, count in zip(batch, languages, words, strict=True)
    ]


def _language(document: "Document", key: str | None) -> str | None:
    for name in (key,) if key else ("language", "lang"):
        if isinstance(value := document.meta.get(name), str) and value:
            return value
    return None


def _groups(evaluation: "Evaluation") -> "Iterator[tuple[str, Measures]]":
    """The rows of a tokenizer: everything, then each source and each language of some size, where there are several."""
    yield "all", evaluation.total()
    if len(evaluation.sources) > 1:
        for source in evaluation.sources:
            yield source, evaluation.total(source=source)
    total = evaluation.total().bytes
    languages = {language: evaluation.total(language=language) for language in evaluation.languages}
    if len(languages) > 1:
        for language, measures in sorted(languages.items(), key=lambda item: -item[1].bytes):
            # Short texts are taken for many languages; a list of all of them would hide those that matter.
            if measures.bytes >= _SHOWN_SHARE * total:
                yield f"[{language}]", measures


def _table(evaluations: "Sequence[Evaluation]", hidden: int | None) -> str:
    names = [evaluation.codec.name for evaluation in evaluations]
    rows = [dict(_groups(evaluation)) for evaluation in evaluations]
    wide = max(map(len, [*names, "tokenizer"]))
    columns = {"ids": 10, "bytes/token": 13, "tokens/word": 13, "tokens/char": 13, "unknown": 10, "changed": 10}
    head = f"{'tokenizer':<{wide}}" + "".join(f"{name:>{width}}" for name, width in columns.items())
    lines = []
    for group in rows[0]:
        texts = rows[0][group].texts
        lines.append(f"{group}: {texts:,} texts, {rows[0][group].bytes / 1e6:,.2f} MB, {rows[0][group].words:,} words")
        lines.append(head)
        for name, evaluation, groups in zip(names, evaluations, rows, strict=True):
            m = groups[group]
            lines.append(
                f"{name:<{wide}}{evaluation.codec.vocab_size:>10,}{m.bytes_per_token:>13.3f}{m.tokens_per_word:>13.3f}"
                f"{m.tokens_per_character:>13.3f}{m.unknown_rate:>10.3%}{m.failures:>10,}"
            )
        lines.append("")
    for name, evaluation in zip(names, evaluations, strict=True):
        if hidden is not None:
            lines.append(f"{name}: {evaluation.embedding_parameters(hidden):,} parameters of embedding")
        if (example := evaluation.total().example) is not None:
            lines.append(
                f"{name}: does not bring back a text of {example.source}: at character {example.position:,} "
                f"{example.text!r} became {example.decoded!r}"
            )
    return "\n".join(lines).rstrip()


def _as_json(evaluations: "Sequence[Evaluation]", hidden: int | None) -> dict[str, Any]:
    return {
        "tokenizers": [
            {
                "name": evaluation.codec.name,
                "vocab_size": evaluation.codec.vocab_size,
                "embedding_parameters": None if hidden is None else evaluation.embedding_parameters(hidden),
                "all": evaluation.total().to_json(),
                "sources": {name: evaluation.total(source=name).to_json() for name in evaluation.sources},
                "languages": {name: evaluation.total(language=name).to_json() for name in evaluation.languages},
                "groups": [
                    {"source": source, "language": language, **measures.to_json()}
                    for (source, language), measures in evaluation.groups.items()
                ],
            }
            for evaluation in evaluations
        ]
    }
