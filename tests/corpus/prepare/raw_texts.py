"""A small corpus with all that a recipe is to find in it."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

_WORDS = (
    "time person year way day thing man world life hand part child eye woman place work week case point government "
    "company number group problem fact water river mountain stone garden letter window paper kitchen summer winter "
    "morning evening silver copper engine bridge harbor island village market teacher student doctor farmer soldier"
)
WORDS = _WORDS.split()
QUESTION = "Which of the old harbor bridges did the silver engine cross on its way to the winter market in the village?"


def sentence(rng: random.Random, words: int = 12) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def text(rng: random.Random) -> str:
    return "\n".join(sentence(rng) for _ in range(rng.randint(4, 20)))


def edited(original: str, rng: random.Random) -> str:
    """The text with one word in it replaced."""
    words = original.split(" ")
    words[rng.randrange(len(words))] = "Zanzibar"
    return " ".join(words)


def write_raw(folder: Path, seed: int = 7, documents: int = 120) -> dict[str, Any]:
    """Writes ``web.jsonl``, ``news.jsonl.gz`` and ``books/``; returns the ids of what is planted."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    web = [{"id": f"web-{n}", "text": text(rng), "meta": {"n": n}} for n in range(documents)]
    copies, near, contaminated = [], [], []
    for n in range(0, documents, 10):
        web.append({"id": f"copy-{n}", "text": web[n]["text"], "meta": {"n": -1}})
        copies.append(f"copy-{n}")
    for n in range(3, documents, 10):
        web.append({"id": f"near-{n}", "text": edited(web[n]["text"], rng), "meta": {"n": -1}})
        near.append(f"near-{n}")
    for n in range(3):
        web.append({"id": f"leak-{n}", "text": f"{text(rng)}\n{QUESTION}\n{text(rng)}", "meta": {}})
        contaminated.append(f"leak-{n}")
    rng.shuffle(web)
    (folder / "web.jsonl").write_text("".join(json.dumps(record) + "\n" for record in web))
    news = [{"id": f"news-{n}", "text": text(rng)} for n in range(documents // 3)]
    # A copy of a page of the web, which the source of higher priority keeps.
    news.append({"id": "news-copy", "text": next(record["text"] for record in web if record["id"] == "web-5")})
    with gzip.open(folder / "news.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in news)
    (folder / "books").mkdir()
    for n in range(12):
        (folder / "books" / f"book{n:02}.txt").write_text("\n\n".join(text(rng) for _ in range(4)) + "\t \n")
    (folder / "quiz.jsonl").write_text(json.dumps({"question": QUESTION, "answer": "none"}) + "\n")
    return {"copies": copies, "near": near, "contaminated": contaminated}


def write_overlapping(folder: Path) -> None:
    """Pages of the web in ``old.jsonl`` and ``new.jsonl``, ten of which are in both; all of them in ``raw``."""
    write_raw(folder / "raw", documents=40)
    lines = (folder / "raw" / "web.jsonl").read_text().splitlines(keepends=True)
    (folder / "old.jsonl").write_text("".join(lines[:30]))
    (folder / "new.jsonl").write_text("".join(lines[20:]))


def recipe(raw: Path, **changes: Any) -> dict[str, Any]:
    """A recipe for it."""
    return {
        "output": "out",
        "sources": {
            "web": {"paths": str(raw / "web.jsonl"), "priority": 1},
            "news": {"paths": str(raw / "news.jsonl.gz"), "priority": 0},
            "books": {"paths": str(raw / "books"), "priority": 2},
        },
        "steps": ["unicode", "whitespace", "exact_dedup", "near_dedup", {"decontaminate": {"ngram": 8}}],
        "evaluation": {"quiz": str(raw / "quiz.jsonl")},
        "splits": {"validation": 0.1, "test": 5},
        "tokenizer": {"train": 400},
        "packing": {"seq_length": 32, "engine": "hf"},
        **changes,
    }
