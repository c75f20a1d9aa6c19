"""Files that carry the name ``.idx`` and are not Megatron's: told apart by their first bytes, never opened."""

_REDO = "make the pair again with `mfm preprocess`"
_CONVERT = "`mfm convert` makes a pair of it"

# (first bytes, what it is, what to do)
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"MSPT", "an index of the MSPT layout", _CONVERT),
    (b"TNTIDX\x00\x00", "an index of the old TNTIDX layout (fairseq; Megatron before mmap)", _CONVERT),
    (b"PK\x03\x04", "a zip archive, probably a NumPy .npz index", _CONVERT),
    (b"PK\x05\x06", "an empty zip archive", _REDO),
    (b"\x93NUMPY", "a NumPy .npy array", _REDO),
    (b"PAR1", "a Parquet file", "rename it to .parquet, and `mfm convert` makes a pair of it"),
    (b"\x1f\x8b", "gzip-compressed", "decompress it"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "decompress it"),
    (b"\xfd7zXZ\x00", "xz-compressed", "decompress it"),
    (b"BZh", "bzip2-compressed", "decompress it"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "fetch it with `git lfs pull`"),
)
_PICKLE_PROTOCOLS = (2, 3, 4, 5)


def describe_layout(head: bytes) -> str:
    """Names what a file is that does not begin with Megatron's magic, and says what to do.

    Args:
        head: the first bytes of the file; 64 are enough.

    Returns:
        ``"found X; do Y"``, without the file's name. A pickle is only named: loading one would execute it.
    """
    for signature, what, remedy in _SIGNATURES:
        if head.startswith(signature):
            return f"found {what}; {remedy}"
    if len(head) > 1 and head[0] == 0x80 and head[1] in _PICKLE_PROTOCOLS:
        return f"found a Python pickle, which is not loaded here because loading executes it; {_CONVERT} without that"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        return f"found a JSON text; {_CONVERT} if it has doc_ends"
    if text[:1] == b"<":
        return "found an HTML or XML text, perhaps the error page of a download; fetch the file again"
    if head and not any(head):
        return f"found only zero bytes, a file that was never finished; copy it again, or {_REDO}"
    return f"found {head[:9]!r}; copy the file again, or {_REDO}"
