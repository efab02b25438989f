#!/usr/bin/env bash
# A Debian base without a package manager, for building where no image can be pulled: base.sh OUTPUT.tar
# SUITE names another release than bookworm. The same mirror gives the same bytes.
set -euo pipefail
output=$1
suite=${SUITE:-bookworm}
export SOURCE_DATE_EPOCH=315532800
export TMPDIR=${TMPDIR:-/var/tmp}

hooks=(
  # Of a system that was merged from the start, the program that would merge it and brings all of Perl.
  'chroot "$1" dpkg-query -W -f "\${Package} " usrmerge "perl" "perl-modules-5*" "libperl5*" libfile-find-rule-perl \
     libnumber-compare-perl libtext-glob-perl libgdbm-compat4 2>/dev/null | xargs chroot "$1" dpkg --purge --force-depends >/dev/null 2>&1'
  'chroot "$1" python3 -m compileall -qf --invalidation-mode unchecked-hash \
     -x "/(test|tests|lib2to3)/" "$(chroot "$1" python3 -c "import os; print(os.path.dirname(os.__file__))")"'
  'find "$1" -xdev -type f -perm /6000 -exec chmod a-s {} +'
  # Of the programs that install Python packages, whose bytecode differs with the machine that makes the base.
  'find "$1/usr/share" -name __pycache__ -prune -exec rm -rf {} +'
  'rm -rf "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/etc/apt/*sources* "$1"/var/cache/debconf/*-old "$1"/var/log/* "$1"/var/lib/dpkg/*-old'
)
options=()
for hook in "${hooks[@]}"; do options+=(--customize-hook="$hook"); done
for path in doc man locale info lintian bug; do options+=(--dpkgopt="path-exclude=/usr/share/$path/*"); done

mkdir -p "$(dirname "$output")"
mmdebstrap --quiet --variant=essential --format=tar "${options[@]}" \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --include=python3,ca-certificates,bubblewrap,ripgrep,tini,util-linux "$suite" "$output.part"
mv "$output.part" "$output"
