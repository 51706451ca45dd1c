#!/usr/bin/env bash
# Builds a small run, and measures it on this machine's GPU: at its own sizes, then with a batch of 512.
#   PYTHONPATH=. bash scripts/gpu_measure.sh [FOLDER] [TARGET]
# Needs the package's dependencies, torch with CUDA, and a GPU (TARGET llvm: none). PYTHON names the interpreter. A program
# that could not be timed is in the table with the reason, and does not end this script.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-runs/gpu}"
target="${2:-cuda}"
python="${PYTHON:-python3}"
config="$(mktemp --suffix=.yaml)"
trap 'rm -f "$config"' EXIT
if [ "$target" = cuda ]; then cp configs/gpu.yaml "$config"; else sed 's/, cuda//' configs/gpu.yaml > "$config"; fi
steptp() { "$python" -m stepTP.cli "$@"; }

steptp build "$config" --out "$out"
steptp measure "$out" --target "$target" --limit 100 || [ $? -eq 1 ]
steptp measure "$out" --target "$target" --limit 25 --set batch_size=512 || [ $? -eq 1 ]
steptp stats "$out"
