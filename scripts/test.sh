#!/usr/bin/env bash
# From a fresh machine to a green test run: lint, types, tests, these on every core. Arguments go to pytest, for example:
# scripts/test.sh -m slow, or scripts/test.sh -n 0 for one process.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh dev
ruff check .
ruff format --check .
pyright
pytest -n auto --dist loadfile "$@"
