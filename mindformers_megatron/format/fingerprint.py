"""One short text for the content of many fields."""

import hashlib
import json
from collections.abc import Mapping


def fingerprint_of(fields: Mapping[str, object]) -> str:
    """SHA-256 over canonical JSON: sorted keys, no blanks, UTF-8.

    Args:
        fields: JSON values; numbers that JSON cannot hold (NaN, infinity) are a ValueError.

    Returns:
        64 hex digits, equal for equal fields on every machine and in every version of Python.
    """
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
