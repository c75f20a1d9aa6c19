#!/usr/bin/env bash
# Trains on several nodes; on each of them: tools/train_nodes.sh CONFIG NODES NODE_RANK MASTER_ADDRESS [KEY=VALUE ...]
# CARDS of a node (8), PORT (8118) and LOG_DIR (output/msrun_log) may be set in the environment.
# The data, and the output folder, must lie under the same path on every node.
set -euo pipefail

if [ $# -lt 4 ]; then
  sed -n '2,4s/^# //p' "$0" >&2
  exit 2
fi
config=$1 nodes=$2 node=$3 master=$4
shift 4
cards=${CARDS:-8}
exec msrun --worker_num "$((nodes * cards))" --local_worker_num "$cards" --node_rank "$node" \
  --master_addr "$master" --master_port "${PORT:-8118}" \
  --log_dir "${LOG_DIR:-output/msrun_log}/node_$node" --join True \
  "$(dirname "$0")/train.py" --config "$config" "$@"
