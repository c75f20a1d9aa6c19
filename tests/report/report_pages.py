"""Things to report on, for tests: a run and a preparation whose every text is hostile, and large ones."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pairs import GOLDEN
from tokenizers import Tokenizer

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.shards import write_shard
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.format.writer import IndexedDatasetWriter

TOKENIZER = GOLDEN / "preprocess" / "tokenizer"

# Each would set window.pwned, load something, break out of what it stands in, or mislead the eye.
HOSTILE = (
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    "\"><svg onload=window.pwned=3 style='position:fixed;inset:0'>",
    "' onmouseover='window.pwned=4' autofocus onfocus='window.pwned=5",
    "<!--<script>window.pwned = 6",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "javascript:window.pwned=7",
    "</pre></details></main></body><iframe srcdoc='<script>parent.pwned=8</script>'></iframe>",
    "&lt;script&gt;window.pwned=9&lt;/script&gt; &#60;b&#62;",
    "line\u2028separator \u202e reversed \x00 nul \x1b[31m \ufeff",
    "<style>body{display:none}</style><meta http-equiv=refresh content='0;url=data:text/html,x'>",
    "长" * 300 + "W" * 3000,
)


def write_run(folder: Path, corpora: dict[str, Sequence[str]], **loader: Any) -> Path:
    """Writes corpora with provenance, raw files and the YAML of a run over them; returns the YAML."""
    tokenizer = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    prefixes = []
    for number, (name, texts) in enumerate(corpora.items()):
        prefix, raw = folder / f"corpus-{number}", folder / f"raw-{number}.jsonl"
        lines = [(json.dumps({"text": text}) + "\n").encode() for text in texts]
        raw.write_bytes(b"".join(lines))
        with IndexedDatasetWriter(str(prefix), np.dtype(np.uint16)) as writer:
            for text in texts:
                writer.add_document(np.array([*tokenizer.encode(text).ids, 0], dtype=np.uint16))
        with DocsWriter(prefix) as docs:
            docs.add(
                [f"{place}: {text[:60]}" for place, text in enumerate(texts)],
                source=name,
                file=raw.name,
                lines=list(range(1, len(texts) + 1)),
                byte_offsets=np.cumsum([0, *map(len, lines)])[:-1].tolist(),
                metas=[None] * len(texts),
            )
        prefixes.append(str(prefix))
    options = {"seq_length": 48, "loss_mask": "boundary", "reset_position_ids": True, "num_samples": 400, **loader}
    config = {
        "output_dir": str(folder / "output"),
        "runner_config": {"batch_size": 4, "epochs": 2},
        "train_dataset": {
            "data_loader": {
                "type": "BlendedMegatronDataLoader",
                "dataset_dir": prefixes,
                "dataset_names": list(corpora),
                **options,
            }
        },
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True))
    return path


def hostile_run(folder: Path) -> Path:
    """A run whose texts, ids and names are all hostile."""
    return write_run(folder, {HOSTILE[1]: [*HOSTILE, "An ordinary text."] * 4, "plain": ["Plain words."] * 40})


def hostile_preparation(folder: Path) -> Path:
    """The folder of a preparation whose texts, ids, files, reasons and sources are all hostile; returns it."""
    documents = [
        Document(text, f"{place} {text[:80]}", HOSTILE[place % 3], Origin(HOSTILE[place % len(HOSTILE)], place + 1, 0))
        for place, text in enumerate([f"{one} {two}" for one in HOSTILE for two in ("left", "right")])
    ]
    for stage in ("read", "near_dedup"):
        kept = folder / "work" / stage / "kept"
        kept.mkdir(parents=True)
        write_shard(kept / "part.parquet", documents)
    read, near, evaluation = Tally(), Tally(), Tally()
    for tally in (read, near, evaluation):
        tally.enter(Batch(documents))
        for document in documents[::2]:
            tally.drop(document, Drop(document.text[:120], f"found {document.text[:40]}"))
        for document in documents[1::2]:
            tally.change(document, document.text.replace("right", "<b>wrong</b>"))
        tally.leave(Batch(documents[1::2]))
    _write_tables(folder, documents)
    steps = {"read": read, "near_dedup": near, "decontaminate": evaluation}
    values = {
        "schema_version": 1,
        "name": HOSTILE[2],
        "sources": {name: {"files": 1, "bytes": 9, "priority": 0, "rejected_records": 3} for name in HOSTILE[:3]},
        "steps": [
            {"step": name, "stage": name, "version": 1, "parameters": {}, **tally.to_json()}
            for name, tally in steps.items()
        ],
        "global_steps": [
            {"step": "near_dedup", "kind": "near_dedup", "clusters": 12, "documents_in_clusters": 24, "dropped": 12},
            {
                "step": "decontaminate",
                "kind": "decontaminate",
                "sets": [{"name": HOSTILE[7], "items": 9, "searched": 8, "found": 2, "whole": 1}],
                "items": [
                    {"set": HOSTILE[7], "item": text, "ngrams": 9, "ngrams_found": 8, "documents": 2}
                    for text in HOSTILE
                ],
            },
        ],
        "languages": {HOSTILE[0]: {HOSTILE[3]: 5, "en": 3}},
    }
    (folder / "data_stats.json").write_text(json.dumps(values))
    return folder


def _write_tables(folder: Path, documents: Sequence[Document]) -> None:
    def names(chosen: Sequence[Document], prefix: str = "") -> dict[str, list[Any]]:
        return {
            f"{prefix}id": [one.id for one in chosen],
            f"{prefix}source": [one.source for one in chosen],
            f"{prefix}file": [one.origin.file for one in chosen],
            f"{prefix}line": [one.origin.line for one in chosen],
        }

    left, right = documents[::2], documents[1::2]
    similar = {"part": pa.array([None] * len(left), pa.int32()), "similarity": [0.9] * len(left)}
    pq.write_table(pa.table({**names(right), **similar, **names(left, "kept_")}), folder / "near_dedup.parquet")
    spans = {"start": [2] * len(left), "end": [20] * len(left), "set": list(HOSTILE), "item": list(HOSTILE)}
    pq.write_table(pa.table({**names(left), **spans}), folder / "decontaminate.parquet")
