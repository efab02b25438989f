#!/bin/sh
# The program's own files as they lie in the image: source.sh VENV STAGED COMMAND MODULE PACKAGE...
set -eu
venv=$1 staged=$2 command=$3 module=$4
shift 4
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

mkdir -p "$staged$packages" "$staged$venv/bin" "$staged/usr/share/$command"
for package; do cp -R "/build/$package" "$staged$packages/"; done
find "$staged" -name __pycache__ -prune -exec rm -rf {} +
cp /build/LICENSE "$staged/usr/share/$command/"
cat >"$staged$venv/bin/$command" <<EOF
#!$venv/bin/python -I
import sys

from $module import main

sys.exit(main())
EOF
{ echo "#!$venv/bin/python -IS"; cat /build/healthz.py; } >"$staged$venv/bin/agent-healthz"
chmod 0755 "$staged$venv/bin/$command" "$staged$venv/bin/agent-healthz"
"$venv/bin/python" -m compileall -q --invalidation-mode unchecked-hash -s "$staged" "$staged$packages"
"$venv/bin/python" -I /build/sbom.py /build/pyproject.toml >"$staged/usr/share/$command/sbom.cdx.json"
chmod -R u=rwX,go=rX "$staged"
