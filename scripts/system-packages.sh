#!/usr/bin/env bash
# The Debian packages beside Python: installs what is missing when it may, else names it and goes on.
# system-packages.sh [PYTHON]: what the agent needs, for that interpreter; system-packages.sh node: what its client's tests need.
set -euo pipefail
wanted=${1:-python3}

missing=()
if [ "$wanted" = node ]; then
  command -v node >/dev/null || missing+=(nodejs)
  command -v npm >/dev/null || missing+=(npm)
else
  command -v bwrap >/dev/null || missing+=(bubblewrap) # confines commands and skills
  command -v rg >/dev/null || missing+=(ripgrep)       # the grep tool
  "$wanted" -c 'import ensurepip' 2>/dev/null || missing+=("$("$wanted" -c \
    'import sys; print("python{}.{}-venv".format(*sys.version_info))')")
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >&2 && exit 0
fi
echo "Missing: ${missing[*]}. Install with: sudo apt-get install ${missing[*]}" >&2
