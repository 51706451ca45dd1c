#!/usr/bin/env bash
# From a fresh machine to a green test run: lint, types, tests. Arguments go to pytest, for example: scripts/test.sh -m slow
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh dev
ruff check .
ruff format --check .
pyright
pytest "$@"
