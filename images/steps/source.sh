#!/bin/sh
# The agent's own files as they lie in the image: source.sh VENV STAGED
# Without the doubles for tests: a model and a host that obey whoever asks have no place in a guest.
set -eu
venv=$1 staged=$2
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

mkdir -p "$staged$packages" "$staged$venv/bin" "$staged/usr/share/agent-runtime"
cp -R /build/agent_common /build/agent_runtime "$staged$packages/"
find "$staged" -name __pycache__ -prune -exec rm -rf {} +
cp /build/LICENSE "$staged/usr/share/agent-runtime/"
cat >"$staged$venv/bin/agent-runtime" <<EOF
#!$venv/bin/python -I
import sys

from agent_runtime.cli import main

sys.exit(main())
EOF
{ echo "#!$venv/bin/python -IS"; cat /build/healthz.py; } >"$staged$venv/bin/agent-healthz"
chmod 0755 "$staged$venv/bin/agent-runtime" "$staged$venv/bin/agent-healthz"
"$venv/bin/python" -m compileall -q --invalidation-mode unchecked-hash -s "$staged" "$staged$packages"
"$venv/bin/python" -I /build/sbom.py /build/pyproject.toml >"$staged/usr/share/agent-runtime/sbom.cdx.json"
chmod -R u=rwX,go=rX "$staged"
