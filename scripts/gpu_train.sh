#!/usr/bin/env bash
# Builds a run if there is none, then trains on it: one call, given again until it ends with `done`.
#   PYTHONPATH=. bash scripts/gpu_train.sh [--seconds 570] [--run runs/small] [OPTIONS OF gpu_train.py]
# On one GPU and 16 cores. State stays in runs/ between calls; $OUT gets at most eight small files. A run that was built
# elsewhere (a folder of `steptp push --dry-run` will do) saves the time of the build. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=570 run=runs/small config=configs/small.yaml rest=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds="$2"; shift ;;
    --run) run="$2"; shift ;;
    --config) config="$2"; shift ;;
    -h | --help) exec "${PYTHON:-python3}" scripts/gpu_train.py --help ;;
    *) rest+=("$1") ;;
  esac
  shift
done
python="${PYTHON:-python3}"
built=0
if [ ! -e "$run/steps.jsonl" ] && [ ! -e "$run/README.md" ]; then
  without="$(mktemp --suffix=.yaml)" # nobody reads the counts of tokens, and the vocabulary may not be here
  trap 'rm -f "$without"' EXIT
  { grep -v '^tokens:' "$config"; echo 'tokens: false'; } > "$without"
  timeout --signal=INT --kill-after=20 $((seconds - 15)) "$python" -m stepTP.cli build "$without" --out "$run" || built=$?
  [ "$built" -eq 0 ] || { echo "not built yet ($built): give the same command again"; exit 3; }
fi
left=$((seconds - SECONDS))
[ "$left" -gt 60 ] || { echo "built: give the same command again"; exit 3; }
"$python" scripts/gpu_train.py "$run" --seconds "$left" "${rest[@]}"
