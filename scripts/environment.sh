# Sourced by the other scripts: makes .venv with the pinned packages and puts it on PATH.
#   source scripts/environment.sh [EXTRAS]     for example: source scripts/environment.sh dev
# Installs again only when pyproject.toml, constraints.txt or the extras changed.

extras="${1:-}"
python="${PYTHON:-python3}"
"$python" - <<'PY'
import sys
if not (3, 11) <= sys.version_info[:2] < (3, 13):
    sys.exit(f"stepTP needs Python 3.11 or 3.12, found {sys.version.split()[0]}: set PYTHON to one")
PY
[ -x .venv/bin/python ] || "$python" -m venv .venv
stamp="$(cat pyproject.toml constraints.txt | sha256sum | cut -c1-16) $extras"
if [ "$(cat .venv/installed 2>/dev/null)" != "$stamp" ]; then
  echo "installing into .venv (about a minute)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".${extras:+[$extras]}"
  echo "$stamp" > .venv/installed
fi
export PATH="$PWD/.venv/bin:$PATH"
