#!/usr/bin/env bash
# From a fresh machine to a verified dataset sample: an environment, a build, its figures and one row.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh tokens
steptp build configs/quickstart.yaml
steptp stats runs/quickstart
steptp show runs/quickstart
