#!/usr/bin/env bash
# The Debian packages beside Python: installs what is missing when it may, else names it and goes on.
set -euo pipefail
python=${1:-python3}

missing=()
command -v bwrap >/dev/null || missing+=(bubblewrap) # confines commands and skills
command -v rg >/dev/null || missing+=(ripgrep)       # the grep tool
"$python" -c 'import ensurepip' 2>/dev/null || missing+=("$("$python" -c \
  'import sys; print("python{}.{}-venv".format(*sys.version_info))')")
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >&2 && exit 0
fi
echo "Missing: ${missing[*]}. Install with: sudo apt-get install ${missing[*]}" >&2
