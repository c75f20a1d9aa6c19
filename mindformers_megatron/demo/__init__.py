"""The whole way once, on real text: tokenizer, corpora, and a training run that is killed and resumed."""
