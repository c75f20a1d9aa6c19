"""Pairs in the layouts of others become Megatron's, and back; what is damaged is refused in one line."""

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenized import Pair

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.convert import Conversion, convert
from mindformers_megatron.format.export import export_layout
from mindformers_megatron.format.layouts.foreign import bin_dtype
from mindformers_megatron.format.layouts.recognize import open_foreign
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.paths import bin_path, idx_path
from mindformers_megatron.format.provenance import count_docs
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.verify.pair import verify_pair
from mindformers_megatron.format.writer import IndexedDatasetWriter

DOCUMENTS = [[5, 6, 7, 0], [1, 2, 0], [], [40_000, 0], [3] * 300 + [0]]
SIZES = [len(document) for document in DOCUMENTS]
TOKENS = np.array([token for document in DOCUMENTS for token in document])
Write = Callable[[str], None]


def offsets(count: int) -> np.ndarray:
    return np.cumsum([0, *SIZES])[:count]


def write_tokens(prefix: str, dtype: str) -> None:
    bin_path(prefix).write_bytes(TOKENS.astype(dtype).tobytes())


def mspt(prefix: str) -> None:
    write_tokens(prefix, "<u2")
    with idx_path(prefix).open("wb") as file:
        file.write(b"MSPT")
        for value in (1, 1, 2048):
            file.write(struct.pack("i", value))
        file.write(struct.pack("q", len(SIZES)))
        offsets(6).astype(np.int64).tofile(file)
        np.asarray(SIZES, np.int64).tofile(file)


def pickled(prefix: str, *, unit: int = 1, protocol: int = 4) -> None:
    write_tokens(prefix, "<i4")
    content = {"sizes": SIZES, "offsets": (offsets(5) * unit).tolist(), "seq_length": 2048, "vocab_size": 65_000}
    idx_path(prefix).write_bytes(pickle.dumps(content, protocol))


def pickled_by_bytes(prefix: str) -> None:
    pickled(prefix, unit=4, protocol=0)


def npz(prefix: str) -> None:
    write_tokens(prefix, "<u2")
    sizes, total = np.asarray(SIZES, np.int32), sum(SIZES)
    np.savez_compressed(f"{prefix}.idx", sizes=sizes, offsets=offsets(5).astype(np.int64), total=total)


def doc_ends(prefix: str) -> None:
    write_tokens(prefix, "<u2")
    content = {"doc_ends": offsets(6)[1:].tolist(), "total_tokens": sum(SIZES)}
    idx_path(prefix).write_text(json.dumps(content))


def tntidx(prefix: str, *, added: int = 0) -> None:
    # As Megatron's "lazy" builder writes it; a document without tokens has a sequence there.
    bin_path(prefix).write_bytes((TOKENS + added).astype("<i4").tobytes())
    count = len(SIZES)
    with idx_path(prefix).open("wb") as file:
        file.write(b"TNTIDX\x00\x00" + struct.pack("<QQQQQ", 1, 4, 4, count, count))
        if not added:
            file.write(struct.pack("<Q", count + 1))
        for longs in (range(count + 1), offsets(6), SIZES, *([] if added else [range(count + 1)])):
            file.write(np.array(longs, np.int64).tobytes())


def tntidx_of_fairseq(prefix: str) -> None:
    tntidx(prefix, added=1)


def mmididx_of_fairseq(prefix: str) -> None:
    write_tokens(prefix, "<u2")
    with idx_path(prefix).open("wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, len(SIZES)))
        file.write(np.array(SIZES, np.int32).tobytes() + (2 * offsets(5)).astype(np.int64).tobytes())


LAYOUTS = {
    "MSPT": mspt,
    "pickled dictionary": pickled,
    "NumPy .npz": npz,
    "JSON doc_ends": doc_ends,
    "TNTIDX": tntidx,
    "fairseq's MMIDIDX": mmididx_of_fairseq,
}
MORE = {**LAYOUTS, "pickled dictionary, in bytes": pickled_by_bytes, "TNTIDX of fairseq": tntidx_of_fairseq}


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(tmp_path / "source")


def converted(source: str | Path, **asked: object) -> IndexedDataset:
    target = str(Path(source).parent / "converted")
    convert(Conversion(source=Path(source), prefix=target, **asked))  # type: ignore[arg-type]
    assert verify_pair(target, full=True).sound
    return IndexedDataset(target)


@pytest.mark.parametrize("layout", MORE)
def test_documents_come_out_as_they_went_in(source: str, layout: str) -> None:
    MORE[layout](source)
    assert open_foreign(source).layout == layout.partition(",")[0].removesuffix(" of fairseq")
    dataset = converted(source)
    bounds = dataset.index.document_indices.tolist()
    documents = [np.concatenate([[], *dataset[begin:end]]).tolist() for begin, end in pairwise(bounds)]
    assert documents == DOCUMENTS
    # A document without tokens has no sequence, unless the layout says that it has.
    assert dataset.num_sequences == (5 if layout == "TNTIDX" else 4)
    assert dataset.dtype == (np.int32 if layout.startswith(("pickled", "TNT")) else np.uint16)


@pytest.mark.parametrize("suffix", ["", ".bin", ".idx", ".idx.npz"])
def test_a_source_is_named_by_its_prefix_or_any_file(source: str, suffix: str) -> None:
    (npz if suffix == ".idx.npz" else doc_ends)(source)
    assert len(converted(source + suffix)) == 4


def test_what_the_index_says_about_itself_is_kept(source: str) -> None:
    pickled(source)
    found = open_foreign(source)
    assert (found.seq_length, found.vocab_size) == (2048, 65_000)
    mspt(source)
    assert open_foreign(source).seq_length == 2048


def read_mspt_as_published(prefix: str) -> list[np.ndarray]:
    with idx_path(prefix).open("rb") as file:
        assert file.read(4) == b"MSPT"
        version, code, seq_length = (int(np.fromfile(file, np.int32, 1)[0]) for _ in range(3))
        total = int(np.fromfile(file, np.int64, 1)[0])
        starts, sizes = np.fromfile(file, np.int64, total + 1), np.fromfile(file, np.int64, total)
    assert (version, seq_length) == (1, 128)
    tokens = np.memmap(bin_path(prefix), np.uint16 if code == 1 else np.int32, "r")
    assert tokens.shape[0] == starts[-1]
    return [tokens[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def read_pickled_as_published(prefix: str) -> list[np.ndarray]:
    content = pickle.loads(idx_path(prefix).read_bytes())
    data = bin_path(prefix).read_bytes()
    return [
        np.frombuffer(data[4 * start : 4 * (start + size)], np.int32)
        for size, start in zip(content["sizes"], content["offsets"], strict=True)
    ]


def read_npz_as_published(prefix: str) -> list[np.ndarray]:
    data = np.fromfile(bin_path(prefix), np.uint16)
    sizes, starts = (np.load(f"{prefix}.idx.npz")[name] for name in ("sizes", "offsets"))
    return [data[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def read_doc_ends_as_published(prefix: str) -> list[np.ndarray]:
    content = json.loads(idx_path(prefix).read_text())
    data = np.fromfile(bin_path(prefix), np.uint16)
    assert content["total_tokens"] == data.size
    return [data[begin:end] for begin, end in pairwise([0, *content["doc_ends"]])]


@pytest.mark.parametrize(
    ("layout", "read"),
    [
        ("mspt", read_mspt_as_published),
        ("pickle", read_pickled_as_published),
        ("npz", read_npz_as_published),
        ("json", read_doc_ends_as_published),
    ],
)
def test_what_is_exported_is_read_by_the_code_that_others_published_and_comes_back(
    source: str, layout: str, read: Callable[[str], list[np.ndarray]]
) -> None:
    with IndexedDatasetWriter(source, np.uint16) as writer:
        writer.add_documents(TOKENS, SIZES)
    target = f"{source}_exported"
    export_layout(source, target, layout, seq_length=128)
    assert [document.tolist() for document in read(target)] == DOCUMENTS
    back = converted(target, dtype=np.dtype(np.uint16))
    for path in (bin_path, idx_path):
        assert path(back.prefix).read_bytes() == path(source).read_bytes()


def test_a_bin_of_another_type_is_read_as_what_it_is_and_metadata_follows(
    original: Pair, copy: Pair, tmp_path: Path
) -> None:
    path = bin_path(copy.prefix)
    path.write_bytes(np.fromfile(path, "<u2").astype(">i4").tobytes())
    done = convert(Conversion(source=Path(copy.prefix), prefix=str(tmp_path / "new"), read_as=bin_dtype(">i4")))
    assert (done.has_metadata, done.has_docs, done.dtype) == (True, True, "uint16")
    assert path.with_name("new.bin").read_bytes() == bin_path(original.prefix).read_bytes()
    assert idx_path(done.prefix).read_bytes() == idx_path(original.prefix).read_bytes()
    assert read_metadata(done.prefix) == read_metadata(original.prefix)
    assert count_docs(done.prefix) == 10_000
    assert verify_pair(done.prefix, full=True).sound


def test_fractions_that_are_ids_are_ids(source: str) -> None:
    doc_ends(source)
    write_tokens(source, "<f4")
    values = TOKENS.astype("<f4")
    for value in (1.5, np.nan, np.inf):
        values[4] = value
        bin_path(source).write_bytes(values.tobytes())
        assert f"document 1, token 0: found {value}, which is no id" in refusal(source, read_as=bin_dtype("float32"))
    write_tokens(source, "<f4")
    assert converted(source, read_as=bin_dtype("float32")).tokens(0, 3).tolist() == [5, 6, 7]


def refusal(source: str, **asked: object) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        converted(source, **asked)
    assert "\n" not in str(caught.value)
    assert not list(Path(source).parent.glob("converted*"))
    return str(caught.value)


def test_ids_that_do_not_fit_are_refused(source: str) -> None:
    pickled(source)
    assert "found id 40,000, expected 0 to 39,999" in refusal(source, vocab_size=40_000)
    assert "id 40000 does not fit the int16" in refusal(source, dtype=np.dtype(np.int16))
    bin_path(source).write_bytes(np.where(TOKENS == 7, -7, TOKENS).astype("<i4").tobytes())
    assert "document 0, token 2: found id -7" in refusal(source)


def test_a_source_is_not_overwritten_and_an_unknown_type_or_layout_is_refused(source: str) -> None:
    mspt(source)
    before = bin_path(source).read_bytes(), idx_path(source).read_bytes()
    with pytest.raises(ConfigError, match="choose another name"):
        convert(Conversion(source=Path(f"{source}.idx"), prefix=source))
    assert (bin_path(source).read_bytes(), idx_path(source).read_bytes()) == before
    for name in ("float16", "object", "U3", "nonsense"):
        with pytest.raises(ConfigError, match="type"):
            bin_dtype(name)
    assert "unknown layout 'x'" in refusal(source, layout="x")


@pytest.mark.parametrize("layout", MORE)
def test_an_index_cut_anywhere_is_refused(source: str, layout: str) -> None:
    MORE[layout](source)
    path = idx_path(source) if idx_path(source).exists() else Path(f"{source}.idx.npz")
    content = path.read_bytes()
    for size in [*range(0, min(len(content), 64)), *range(64, len(content), 23)]:
        path.write_bytes(content[:size])
        with pytest.raises(DataError) as caught:
            open_foreign(source)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", MORE)
@pytest.mark.parametrize("trials", [40, pytest.param(3_000, marks=pytest.mark.slow)])
def test_random_damage_gives_a_pair_that_is_sound_or_one_line(source: str, layout: str, trials: int) -> None:
    MORE[layout](source)
    path = idx_path(source) if idx_path(source).exists() else Path(f"{source}.idx.npz")
    sound = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(0)
    for _ in range(trials):
        damaged = sound.copy()
        where = rng.integers(0, sound.size, rng.integers(1, 4))
        damaged[where] = rng.integers(0, 256, where.size)
        path.write_bytes(damaged.tobytes())
        try:
            converted(source)
        except DataError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("layout", MORE)
def test_a_bin_of_another_size_is_refused(source: str, layout: str) -> None:
    MORE[layout](source)
    content = bin_path(source).read_bytes()
    for changed in (content[:-2], content + b"\0", b""):
        bin_path(source).write_bytes(changed)
        assert "bytes, but" in refusal(source)
    bin_path(source).unlink()
    assert "not found; every layout has its tokens in a .bin" in refusal(source)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"sizes": [4], "offsets": [1]}, "document 0 begins at 1, but what is before it ends at 0"),
        ({"sizes": [4, -1], "offsets": [0, 4]}, "document 1 has -1 tokens"),
        ({"sizes": [4, 2**31], "offsets": [0, 4]}, "has 2,147,483,648 tokens"),
        ({"sizes": [4, 2**70], "offsets": [0, 4]}, "expected integers in a row"),
        ({"sizes": [4.0], "offsets": [0]}, "expected integers in a row"),
        ({"sizes": ["4"], "offsets": [0]}, "expected integers in a row"),
        ({"sizes": [[4]], "offsets": [0]}, "expected integers in a row"),
        ({"sizes": [[4], 4], "offsets": [0]}, "no list of integers"),
        ({"sizes": [4, 5], "offsets": [0]}, "1 offsets for 2 documents"),
        ({"offsets": [0]}, "has no 'sizes'"),
        ([4], "expected a dictionary"),
    ],
)
def test_a_pickle_with_something_else_in_it_is_refused(source: str, content: object, said: str) -> None:
    pickled(source)
    idx_path(source).write_bytes(pickle.dumps(content))
    assert said in refusal(source)


def test_a_hostile_pickle_is_not_executed(source: str, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return Path.touch, (tmp_path / "executed",)

    pickled(source)
    for content in (Bomb(), {"sizes": Bomb(), "offsets": [0]}):
        idx_path(source).write_bytes(pickle.dumps(content))
        assert "it was not executed" in refusal(source)
    assert not (tmp_path / "executed").exists()


def write_bomb(path: Path, header: bytes, zeros: int) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("sizes", "offsets"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                file.write(header)
                for _ in range(zeros >> 20):
                    file.write(bytes(1 << 20))


def npy_header(shape: str, descr: str = "<i8") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (npy_header(f"({1 << 22},)"), "declares 4,194,304 numbers"),
        (npy_header("(5,)"), "unpacks to 33,554,560 bytes"),
        (npy_header(f"({1 << 62},)"), "declares 4,611,686,018,427,387,904 numbers"),
        (npy_header(f"({1 << 62}, {1 << 62})"), "expected integers in a row"),
        (npy_header("(-5,)"), "declares -5 numbers"),
        (npy_header("(5,)", "|O"), "is object of shape"),
        (npy_header("(5,)", "<f8"), "is float64 of shape"),
        (npy_header("(" * 2000), "is no array"),
        (b"", "is no array"),
    ],
)
def test_an_archive_that_unpacks_to_more_than_there_can_be_is_refused_before(
    source: str, header: bytes, said: str
) -> None:
    npz(source)
    path = Path(f"{source}.idx.npz")
    write_bomb(path, header, 32 << 20)
    assert path.stat().st_size < 1 << 20
    assert said in refusal(source)
