#!/usr/bin/env bash
# Measures the states of the committed sample (data/sample) on this machine's GPU, as many as the time allows.
#   PYTHONPATH=. bash scripts/gpu_sample.sh [--seconds 200] [--target cuda|llvm]
# Writes $OUT/measurements.jsonl (or runs/gpu_sample/measurements.jsonl), a line a program as it comes, so that a kill
# loses nothing; given again, it goes on. A few states of every source come first, then more.
# To join the table to the sample: copy it to runs/sample/measurements.jsonl, and run scripts/sample.sh.
# Needs the package's dependencies, pyarrow, torch with CUDA, and a GPU. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=200 target=cuda
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds="$2" ;;
    --target) target="$2" ;;
    *) echo "gpu_sample.sh: unknown option $1: give --seconds N, --target cuda or llvm" >&2; exit 2 ;;
  esac
  shift 2
done
out="${OUT:-runs/gpu_sample}"
python="${PYTHON:-python3}"
mkdir -p "$out"
end=$((SECONDS + seconds))
for limit in 150 2000; do
  left=$((end - SECONDS))
  [ "$left" -gt 5 ] || break
  # 1: a program that could not be timed is in the table with the reason; 124: the time is up
  timeout --signal=INT --kill-after=20 "$left" "$python" -m stepTP.cli measure data/sample --target "$target" \
    --limit "$limit" --table "$out/measurements.jsonl" > "$out/measure.txt" 2>&1 || [ $? -eq 1 ] || break
done
tail -n 3 "$out/measure.txt"
wc -l "$out/measurements.jsonl"
