#!/usr/bin/env bash
# Makes the virtual environment from the hash-pinned lock, with this checkout installed in place.
# setup.sh [VENV]; PYTHON names another interpreter than python3.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  found=$("$python" --version 2>&1) || found="no $python"
  echo "Python 3.11 or newer is needed, found: $found. Name another one with: make PYTHON=python3.12" >&2
  exit 1
fi

scripts/system-packages.sh "$python"
[ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
pip=("$venv/bin/pip" --disable-pip-version-check --quiet install)
echo "Installing into $venv" >&2
"${pip[@]}" --require-hashes -r requirements/dev.lock
"${pip[@]}" --no-deps --no-build-isolation -e .
