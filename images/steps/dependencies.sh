#!/bin/sh
# The dependencies of the lock in a virtual environment without pip: dependencies.sh LOCK VENV
# Nothing is compiled, and what does not have the lock's hash is not installed.
set -eu
lock=$1 venv=$2

[ ! -s /run/secrets/pip.conf ] || export PIP_CONFIG_FILE=/run/secrets/pip.conf
[ ! -s /run/secrets/ca.pem ] || export PIP_CERT=/run/secrets/ca.pem
python3 -m venv --without-pip "$venv"
lent=$(echo /run/pip/pip-*.whl)
if [ -e "$lent" ]; then set -- python3 "$lent/pip"; else set -- python3 -m pip; fi
"$@" --python "$venv/bin/python" install --disable-pip-version-check --quiet --no-cache-dir --no-compile --no-deps \
  --only-binary :all: --require-hashes -r "$lock"

# Programs of libraries that nobody calls, and what only a compiler or a type checker reads.
find "$venv/bin" -mindepth 1 ! -name 'python*' -delete
find "$venv/lib" -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
find "$venv/lib" -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.c' -o -name '*.h' -o -name '*.pyi' \) -delete
rm -rf "$venv/include"
python3 -m compileall -q --invalidation-mode unchecked-hash "$venv/lib"
