"""The token types that an index can name, and which of them Megatron picks."""

import numpy as np

from mindformers_megatron.errors import ConfigError

# Codes of Megatron-core's ``DType`` enumeration. 6 is float64 and 7 is float32, in this order.
DTYPE_CODES: dict[int, np.dtype[np.generic]] = {
    1: np.dtype("u1"),
    2: np.dtype("i1"),
    3: np.dtype("<i2"),
    4: np.dtype("<i4"),
    5: np.dtype("<i8"),
    6: np.dtype("<f8"),
    7: np.dtype("<f4"),
    8: np.dtype("<u2"),
}

# Megatron's limit, not 65,536: files are byte-identical to its own only if this is kept.
_UINT16_VOCAB_LIMIT = 65500


def dtype_for_vocab(vocab_size: int | None) -> np.dtype[np.generic]:
    """The token type Megatron writes for a vocabulary: uint16 below 65,500 ids, else (or if unknown) int32."""
    fits = vocab_size is not None and vocab_size < _UINT16_VOCAB_LIMIT
    return DTYPE_CODES[8] if fits else DTYPE_CODES[4]


def dtype_code(dtype: object) -> int:
    """The code of a NumPy dtype (or what ``numpy.dtype`` takes).

    Raises:
        ConfigError: the format has no code for it.
    """
    allowed = ", ".join(known.name for known in DTYPE_CODES.values())
    try:
        wanted = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        raise ConfigError(f"dtype {dtype!r} is no NumPy type; a .bin holds one of: {allowed}") from None
    for code, known in DTYPE_CODES.items():
        if wanted == known:
            return code
    raise ConfigError(f"dtype {wanted} has no code in a Megatron index; a .bin holds one of: {allowed}")
