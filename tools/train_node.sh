#!/usr/bin/env bash
# Trains on the cards of one node: tools/train_node.sh CONFIG CARDS [KEY=VALUE ...]
# PORT (8118) and LOG_DIR (output/msrun_log) may be set in the environment.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '2,3s/^# //p' "$0" >&2
  exit 2
fi
config=$1 cards=$2
shift 2
exec msrun --worker_num "$cards" --local_worker_num "$cards" --master_port "${PORT:-8118}" \
  --log_dir "${LOG_DIR:-output/msrun_log}" --join True \
  "$(dirname "$0")/train.py" --config "$config" "$@"
