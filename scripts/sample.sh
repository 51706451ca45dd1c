#!/usr/bin/env bash
# Makes the committed sample: builds configs/sample.yaml, and writes data/sample as `steptp push --dry-run` does.
#   bash scripts/sample.sh
# Latencies come from runs/sample/measurements.jsonl, where it is there: scripts/gpu_sample.sh measures them on a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh tokens,publish
steptp build configs/sample.yaml --out runs/sample
steptp push runs/sample --dry-run data/sample --name "stepTP sample"
