"""What comes out of training, whatever the method."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindformers_megatron.tokenization.training.special_tokens import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTokenizer:
    """A trained tokenizer.

    Attributes:
        tokenizer: a ``tokenizers.Tokenizer``.
        roles: text of the token of each role that there is.
        library: what trained it.
        library_version: of that library.
        files: other files that hold it, by the suffix that is put behind a prefix (``.model``) or by name.
        findings: what else is worth being noted about it, as JSON values.
        warnings: what people should know, one line each.
    """

    tokenizer: Any
    roles: Mapping[Role, str]
    library: str
    library_version: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        """Ids it has."""
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    def id_of(self, token: str) -> int:
        """The id of one of its tokens."""
        return int(self.tokenizer.token_to_id(token))
