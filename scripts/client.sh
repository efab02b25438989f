#!/usr/bin/env bash
# Installs the AI SDK that the client's tests read our streams with, from the hash-pinned lock.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/system-packages.sh node
command -v npm >/dev/null || { echo "The client's tests need Node 18.17 or newer, with npm." >&2; exit 1; }
echo "Installing into tests/client/node_modules" >&2
npm ci --prefix tests/client --ignore-scripts --no-audit --no-fund --loglevel=error >&2
