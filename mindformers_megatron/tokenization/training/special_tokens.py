"""The tokens that stand for no text of their own, and which ids they get."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from mindformers_megatron.errors import ConfigError

Role = Literal["pad", "unk", "bos", "eos", "eod"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """What tokens there are beside those that are learned.

    Attributes:
        tokens: text of the token of each role that there is. Roles may share one: what ends a text often ends a
            document too.
        ids: asked for some of the roles; the others get the lowest ids that are free.
        user_defined: symbols that are one token wherever they stand in a text, in the order of their ids, behind the
            others.
    """

    tokens: Mapping[Role, str]
    ids: Mapping[Role, int] = field(default_factory=dict)
    user_defined: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for role, token in self.tokens.items():
            if not token:
                raise ConfigError(f"the {role} token is empty; leave it out, or give it a text")
        for role in self.ids:
            if role not in self.tokens:
                raise ConfigError(f"id {self.ids[role]} given for {role}, but no token; pass --{role}-token as well")
        seen = set(self.tokens.values())
        for symbol in self.user_defined:
            if not symbol:
                raise ConfigError("a user-defined symbol is empty; look for two commas in a row")
            if symbol in seen:
                raise ConfigError(f"user-defined symbol {symbol!r} is there already; give it once")
            seen.add(symbol)

    @property
    def texts(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*(self.tokens[role] for role in ROLES if role in self.tokens), *self.user_defined]))

    def place(self, vocab_size: int) -> dict[str, int]:
        """Says which id each token gets.

        Raises:
            ConfigError: an id is out of range or asked for twice, or a token is asked to have two.
        """
        placed: dict[str, int] = {}
        taken: dict[int, str] = {}
        for role, id_ in self.ids.items():
            token = self.tokens[role]
            if not 0 <= id_ < vocab_size:
                raise ConfigError(f"{role} id {id_} is not among the {vocab_size} ids from 0 on")
            if placed.get(token, id_) != id_:
                raise ConfigError(f"token {token!r} is asked to have both id {placed[token]} and id {id_}")
            if taken.get(id_, token) != token:
                raise ConfigError(f"id {id_} is asked for both {taken[id_]!r} and {token!r}; give each its own")
            placed[token], taken[id_] = id_, token
        free = iter(id_ for id_ in range(vocab_size) if id_ not in taken)
        for token in self.texts:
            if token not in placed:
                id_next = next(free, None)
                if id_next is None:
                    raise ConfigError(f"{len(self.texts)} special tokens do not fit {vocab_size} ids")
                placed[token] = id_next
        return placed
