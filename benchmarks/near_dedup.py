"""Near deduplication: documents a second of one core, from texts to verified pairs, and how many pairs are found.

Documents of 320 words (about 500 tokens), some of them others with 1 to 25 words replaced; the truth is the exact
Jaccard similarity of their sets of 5 words in a row. All methods use 128 permutations and the same bands. datasketch is
measured beside ours, and rensa where it is installed (``pip install rensa``).
"""

import argparse
import itertools
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW, band_rows, find_candidates
from mindformers_megatron.corpus.dedup.minhash import similarity
from mindformers_megatron.corpus.dedup.near import NearOptions, paired_documents, shard_rows
from mindformers_megatron.corpus.dedup.shingle_store import gather_store
from mindformers_megatron.corpus.dedup.shingles import shingle_sets
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.corpus.dedup.verify import verify_pairs

OPTIONS = NearOptions()
BANDS = OPTIONS.chosen_bands()
WORDS = 320

Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class Corpus:
    """Texts, and the similarity of those pairs that are not similar by chance."""

    texts: list[str]
    similar: dict[tuple[int, int], float]


def shingles(text: str) -> set[str]:
    words = text.split()
    return {" ".join(words[place : place + OPTIONS.ngram]) for place in range(len(words) - OPTIONS.ngram + 1)}


def make_corpus(documents: int, edits: int, seed: int) -> Corpus:
    chance = random.Random(seed)
    vocabulary = ["".join(chance.choices("etaoinshrdlcum", k=chance.randint(2, 9))) for _ in range(50_000)]
    members = [(number, chance.choices(vocabulary, k=WORDS)) for number in range(documents - edits)]
    for _ in range(edits):
        family, words = members[chance.randrange(documents - edits)]
        words = list(words)
        for place in chance.sample(range(WORDS), chance.randint(1, 25)):
            words[place] = chance.choice(vocabulary)
        members.append((family, words))
    chance.shuffle(members)
    texts = [" ".join(words) for _, words in members]
    families: dict[int, list[int]] = {}
    for number, (family, _) in enumerate(members):
        families.setdefault(family, []).append(number)
    similar = {}
    for family in families.values():
        for left, right in itertools.combinations(family, 2):
            one, other = shingles(texts[left]), shingles(texts[right])
            similar[left, right] = len(one & other) / len(one | other)
    return Corpus(texts, similar)


def candidates(rows: np.ndarray, documents: int) -> np.ndarray:
    found = find_candidates([rows], BANDS, documents=documents, bound=Bound())
    return np.concatenate([np.zeros(0, dtype=PAIR_ROW), *found])


def ours(texts: list[str]) -> tuple[float, Pairs]:
    started = time.process_time()
    rows = shard_rows(texts, OPTIONS, first_document=0)
    signed = time.process_time() - started
    pairs = candidates(rows, len(texts))
    documents = paired_documents(pairs, len(texts))
    store = gather_store([(documents, shingle_sets([texts[number] for number in documents], OPTIONS.ngram))])
    return signed, {pair for part in verify_pairs(pairs, store, OPTIONS.threshold) for pair in part.tolist()}


def with_datasketch(hash_function: Callable[[bytes], int] | None) -> Callable[[list[str]], tuple[float, Pairs]]:
    from datasketch import MinHash, MinHashLSH

    def run(texts: list[str]) -> tuple[float, Pairs]:
        started = time.process_time()
        sketches = []
        for text in texts:
            sketch = MinHash(OPTIONS.permutations, hashfunc=hash_function)
            sketch.update_batch([shingle.encode() for shingle in shingles(text)])
            sketches.append(sketch)
        signed = time.process_time() - started
        index = MinHashLSH(num_perm=OPTIONS.permutations, params=(BANDS.count, BANDS.rows))
        found = set()
        for number, sketch in enumerate(sketches):
            for other in index.query(sketch):
                if sketch.jaccard(sketches[other]) >= OPTIONS.threshold:
                    found.add((other, number))
            index.insert(number, sketch)
        return signed, found

    return run


def with_rensa(texts: list[str]) -> tuple[float, Pairs]:
    from rensa import RMinHash

    started = time.process_time()
    digests = RMinHash.digests_from_token_sets([shingles(text) for text in texts], OPTIONS.permutations, 1)
    signatures = np.array(digests, dtype=np.uint32)
    signed = time.process_time() - started
    rows = band_rows(signatures, BANDS, 0)
    pairs = candidates(rows, len(texts))
    close = similarity(signatures[pairs["left"]], signatures[pairs["right"]]) >= np.float32(OPTIONS.threshold)
    return signed, set(pairs[close].tolist())


def show(name: str, corpus: Corpus, run: Callable[[list[str]], tuple[float, Pairs]], repeats: int) -> float:
    """Prints the best of some runs; returns documents a second."""
    run(corpus.texts[:50])
    best = (float("inf"), 0.0)
    found: Pairs = set()
    for _ in range(repeats):
        started = time.process_time()
        signed, found = run(corpus.texts)
        best = min(best, (time.process_time() - started, signed))
    total, signed = best
    recalls = []
    for least in (0.7, 0.8):
        similar = {pair for pair, value in corpus.similar.items() if value >= least}
        recalls.append(len(similar & found) / len(similar))
    precision = sum(corpus.similar.get(pair, 0) >= OPTIONS.threshold for pair in found) / max(len(found), 1)
    count = len(corpus.texts)
    print(
        f"{name:24} {count / signed:10,.0f} {count / total:10,.0f} {recalls[0]:9.3f} {recalls[1]:9.3f} {precision:9.3f}"
    )
    return count / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    corpus = make_corpus(args.documents, args.edits, args.seed)
    megabytes = sum(map(len, corpus.texts)) / 1e6
    counts = [sum(value >= least for value in corpus.similar.values()) for least in (0.7, 0.8)]
    print(
        f"{args.documents:,} documents of {WORDS} words, {megabytes:.0f} MB; {counts[0]} pairs at least 0.7 similar, "
        f"{counts[1]} at least 0.8; {BANDS.count} bands of {BANDS.rows} rows"
    )
    print(f"{'CPU time':24} {'signed/s':>10} {'all/s':>10} {'found .7':>9} {'found .8':>9} {'precision':>9}")
    rate = show("mindformers-megatron", corpus, ours, args.repeats)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peers = [show("datasketch", corpus, with_datasketch(None), 1)]
    try:
        import xxhash
    except ImportError:
        print("datasketch with xxhash   not installed")
    else:
        peers.append(show("datasketch with xxhash", corpus, with_datasketch(xxhash.xxh32_intdigest), 1))
    try:
        import rensa  # noqa: F401
    except ImportError:
        print("rensa                    not installed")
    else:
        peers.append(show("rensa", corpus, with_rensa, args.repeats))
    print("times the peers: " + ", ".join(f"{rate / peer:.1f}" for peer in peers))
    print(f"{rate * megabytes / args.documents:.0f} MB/s of text; {memory:.0f} MB of memory, texts and truth included")


if __name__ == "__main__":
    main()
