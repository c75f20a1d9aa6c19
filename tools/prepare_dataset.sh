#!/bin/bash
# From a folder of raw JSON lines to one dataset for training, with its report: cleaned, deduplicated, decontaminated,
# tokenized and packed by `mfm prepare`. What a killed run has finished is not done again.
#
#   RAW_DATA_DIR=raw PROCESSED_DIR=processed TOKENIZER_PATH=tokenizer tools/prepare_dataset.sh
#
# All settings are variables of the environment, and may be changed here:
set -euo pipefail

RAW_DATA_DIR="${RAW_DATA_DIR:-/path/to/raw_jsonl_files}"   # every file in it becomes a source of its own
PROCESSED_DIR="${PROCESSED_DIR:-/path/to/processed_data}"
OUTPUT_PREFIX="${OUTPUT_PREFIX:-my_pretraining_dataset}"
TOKENIZER_PATH="${TOKENIZER_PATH:-}"       # a folder, a tokenizer.json or a SentencePiece .model
VOCAB_FILE="${VOCAB_FILE:-}"               # or GPT-2's vocab.json, with MERGE_FILE
MERGE_FILE="${MERGE_FILE:-}"
VOCAB_SIZE="${VOCAB_SIZE:-32000}"          # or, with none of them, the size of one that is trained on the cleaned text
TEXT_KEY="${TEXT_KEY:-text}"
SEQ_LENGTH="${SEQ_LENGTH:-2048}"
EVALUATION_DIR="${EVALUATION_DIR:-}"       # evaluation sets that the model must not see, if there are any
VALIDATION="${VALIDATION:-0.005}"          # share of the documents held out for validation
STEPS="${STEPS:-default, exact_dedup, near_dedup}"
WORKERS="${WORKERS:-$(nproc)}"

# --- 0. Settings, as a recipe ---
quote() { printf "'%s'" "${1//\'/\'\'}"; }   # a YAML string, whatever is in it
fail() { echo "prepare_dataset.sh: $1" >&2; exit 2; }

[ -d "$RAW_DATA_DIR" ] || fail "RAW_DATA_DIR is $RAW_DATA_DIR, which is no folder"
mkdir -p "$PROCESSED_DIR"
RECIPE="$PROCESSED_DIR/recipe.yaml"
shopt -s nullglob
raw=("$RAW_DATA_DIR"/*.jsonl "$RAW_DATA_DIR"/*.jsonl.{gz,zst,xz,bz2} "$RAW_DATA_DIR"/*.parquet)
[ "${#raw[@]}" -gt 0 ] || fail "$RAW_DATA_DIR has no .jsonl (.gz, .zst, .xz, .bz2) or .parquet files"
{
  echo "output: $(quote "$PROCESSED_DIR/$OUTPUT_PREFIX")"
  echo "sources:"
  for file in "${raw[@]}"; do
    name="$(basename "$file")"
    echo "  $(quote "$name"): {paths: [$(quote "$file")], text_key: $(quote "$TEXT_KEY")}"
  done
  if [ -n "$EVALUATION_DIR" ]; then
    echo "steps: [$STEPS, decontaminate]"
    echo "evaluation:"
    for file in "$EVALUATION_DIR"/*; do
      echo "  $(quote "$(basename "$file")"): $(quote "$file")"
    done
  else
    echo "steps: [$STEPS]"
  fi
  echo "splits: {validation: $VALIDATION}"
  if [ -n "$TOKENIZER_PATH" ]; then
    echo "tokenizer: {path: $(quote "$TOKENIZER_PATH")}"
  elif [ -n "$VOCAB_FILE" ]; then
    echo "tokenizer: {vocab_file: $(quote "$VOCAB_FILE"), merge_file: $(quote "$MERGE_FILE")}"
  else
    echo "tokenizer: {train: $VOCAB_SIZE}"
  fi
  echo "packing: {append_eod: true, seq_length: $SEQ_LENGTH}"
  echo "on_error: skip"
} > "$RECIPE"

# --- 1. Cleaning, deduplication, tokenizing, packing: a pair for each source and split ---
echo "Step 1: $RECIPE"
mfm prepare "$RECIPE" --workers "$WORKERS"

# --- 2. One dataset of all sources, as Megatron's tools expect it ---
echo "Step 2: merging sources"
mfm merge "$PROCESSED_DIR/$OUTPUT_PREFIX"/corpora/*_train_text_document.idx \
  --output-prefix "$PROCESSED_DIR/${OUTPUT_PREFIX}_text_document"

# --- 3. The statistics ---
cp "$PROCESSED_DIR/$OUTPUT_PREFIX/stats_report.txt" "$PROCESSED_DIR/$OUTPUT_PREFIX/data_stats.json" "$PROCESSED_DIR/"
echo "Data preparation complete: $PROCESSED_DIR/${OUTPUT_PREFIX}_text_document.bin, $PROCESSED_DIR/stats_report.txt"
