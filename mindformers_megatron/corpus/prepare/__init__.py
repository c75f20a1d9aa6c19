"""A recipe carried out: from raw files to corpora, shard by shard, with the global steps in between."""
