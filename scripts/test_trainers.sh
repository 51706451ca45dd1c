#!/usr/bin/env bash
# The tests that need the trainers themselves: TRL and peft load the exports, train on them, and ask the verifier.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/environment.sh dev,train
pytest -n auto --dist loadfile -m slow "$@" \
  tests/stepTP/test_export_loading.py tests/stepTP/test_recipes.py tests/stepTP/test_rewards_trainers.py
