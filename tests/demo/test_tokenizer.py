"""The demo's tokenizer encodes any text and names its end of document."""

from tokenizers import Tokenizer

from mindformers_megatron.demo.tokenizer import END_OF_TEXT, train_tokenizer
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer


def test_it_has_the_size_asked_for_and_reads_back_what_it_never_saw(tmp_path):
    texts = [f"def f{number}(self): return self.value + {number}\n" for number in range(400)]
    assert train_tokenizer(texts, 320, tmp_path / "tokenizer") == 320
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer" / "tokenizer.json"))
    unseen = "Größe 汉字 \U0001f600\x00\n\tend"
    assert tokenizer.decode(tokenizer.encode(unseen).ids) == unseen
    assert len(tokenizer.encode(texts[7]).ids) < len(texts[7]) / 2


def test_too_little_text_gives_a_smaller_vocabulary(tmp_path):
    assert train_tokenizer(["ab"], 4096, tmp_path) == 258  # 256 bytes, the end of text, and "ab"


def test_the_packer_finds_its_end_of_document_without_being_told(tmp_path):
    train_tokenizer(["ab"], 300, tmp_path)
    tokenizer = open_tokenizer(TokenizerSpec(path=tmp_path))
    assert (tokenizer.eod_token, tokenizer.eod_id) == (END_OF_TEXT, 0)


def test_training_twice_gives_the_same_files(tmp_path):
    texts = [f"{number} is {number * number}" for number in range(1000)]
    for name in ("a", "b"):
        train_tokenizer(texts, 400, tmp_path / name)
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
