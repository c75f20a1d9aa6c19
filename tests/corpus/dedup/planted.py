"""Corpora with planted near duplicates, English-like and Chinese."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from corpus.brute_force import jaccard, shingles

# Each line a part of a sentence, its choices between bars.
_PHRASES = """
去年冬天｜每逢周末｜大雨之后｜天亮以前｜很多年来｜午饭过后｜在回家的路上｜战争结束时
清晨的渔民｜老教授｜北方的商队｜年轻的工程师｜山里的孩子｜图书管理员｜值夜班的护士｜退休的船长｜村口的木匠
修好了｜寄出了｜重新整理｜悄悄观察｜仔细记录｜慢慢讲述｜反复检查｜终于找到
一座旧钟楼｜远方来的信件｜几千册藏书｜河流的水位｜星星的位置｜失传的手艺｜孩子们的笔记｜被遗忘的小路｜发动机的零件
，谁也没有想到会这样。｜，心里觉得十分踏实。｜，然后把门轻轻关上。｜，后来写进了县志。｜，大家都说值得。｜。
"""
PARTS = [line.split("｜") for line in _PHRASES.split()]


@dataclass(frozen=True)
class Planted:
    """Texts in random order, and for every edited family the exact similarity of each two of its members."""

    texts: list[str]
    similar: dict[tuple[int, int], float]


def english(random_: random.Random, words: int) -> list[str]:
    return random_.choices(VOCABULARY, k=words)


def chinese(random_: random.Random, characters: int) -> list[str]:
    text = ""
    while len(text) < characters:
        text += "".join(map(random_.choice, PARTS))
    return list(text)


def plant(
    seed: int,
    documents: int,
    edits: int,
    make: Callable[[random.Random, int], list[str]],
    size: int,
    joiner: str,
    ngram: int = 5,
) -> Planted:
    """Makes ``documents`` texts, of which ``edits`` are others with 1 to 25 pieces replaced."""
    chance = random.Random(seed)
    originals = [make(chance, size) for _ in range(documents - edits)]
    spare = make(chance, 2000)
    members = list(enumerate(originals))
    for _ in range(edits):
        family = chance.randrange(len(originals))
        pieces = list(originals[family])
        for place in chance.sample(range(len(pieces)), chance.randint(1, 25)):
            pieces[place] = chance.choice(spare)
        members.append((family, pieces))
    chance.shuffle(members)
    texts = [joiner.join(pieces) for _, pieces in members]
    families: dict[int, list[int]] = {}
    for number, (family, _) in enumerate(members):
        families.setdefault(family, []).append(number)
    similar = {
        (left, right): jaccard(shingles(texts[left], ngram), shingles(texts[right], ngram))
        for numbers in families.values()
        for left, right in itertools.combinations(numbers, 2)
    }
    return Planted(texts, similar)


def _vocabulary() -> list[str]:
    chance = random.Random(0)
    return ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(20_000)]


VOCABULARY = _vocabulary()
