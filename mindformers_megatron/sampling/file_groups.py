"""Dividing the files of a blend among groups of ranks, so that each opens its share and the mix stays what was asked.

The corpora's shares are laid end to end on a line, which is cut into as many equal stretches as there are groups. A
group reads the corpora that its stretch covers, weighted by how much of each it covers; where a cut goes through a
corpus, its two sides read the two parts of its tokens in the same proportion. So every group gives as many samples,
every corpus its share of all, no token is read by two groups, and of N corpora G groups open N + G - 1 at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShare:
    """What a group reads of one corpus.

    Attributes:
        corpus: Place of the corpus in the blend.
        begin: Where its stretch begins, as a share of the corpus's tokens.
        end: Where it ends.
        parts: Its weight in the group; the weights of every group have the same sum.
    """

    corpus: int
    begin: Fraction
    end: Fraction
    parts: int


def share_files(parts: Sequence[int], groups: int) -> list[list[FileShare]]:
    """Divides a blend among groups.

    Args:
        parts: The whole parts of the corpora in the blend (see ``shares.integer_parts``).
        groups: How many groups, at least 1.

    Returns:
        For each group what it reads, in the order of the blend.
    """
    # In units of 1 / groups of a part, so that every cut falls on a whole number.
    stretch = sum(parts)
    shares: list[list[FileShare]] = [[] for _ in range(groups)]
    first = 0
    for corpus, own in enumerate(parts):
        length = own * groups
        last = first + length
        for group in range(first // stretch, -(-last // stretch)):
            begin, end = max(first, group * stretch), min(last, (group + 1) * stretch)
            if begin < end:
                shares[group].append(
                    FileShare(
                        corpus=corpus,
                        begin=Fraction(begin - first, length),
                        end=Fraction(end - first, length),
                        parts=end - begin,
                    )
                )
        first = last
    return shares
