#!/bin/sh
# What guest and host need of the system, and nothing with which a program is installed or compiled:
# system.sh USER UID GID [GROUP], the user that the program runs as, in the group of agents unless one is named.
# In the base of images/base.sh all of that is there already, and this makes a small layer.
set -eu
user=$1 uid=$2 gid=$3

missing=
for pair in bwrap:bubblewrap rg:ripgrep tini:tini setpriv:util-linux; do
  command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
if [ -n "$missing" ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing
  rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /var/cache/debconf/*-old
fi

grep -q "^$user:" /etc/passwd || {
  echo "$user:x:$uid:$gid::/home/$user:/usr/sbin/nologin" >>/etc/passwd
  echo "${4:-agent}:x:$gid:" >>/etc/group
}
mkdir -p /data "/home/$user"
chown "$uid:$gid" /data
chmod 0750 /data
chmod 1777 /tmp

# No way to install anything, and no program that runs as somebody else.
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
library=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')
rm -rf "$library/ensurepip" "$library/site-packages/pip" "$library/site-packages/setuptools" "$library/site-packages/wheel" \
  "$library"/site-packages/*.dist-info "$library/idlelib" "$library/turtledemo"
rm -f "$(dirname "$python")"/pip* "$(dirname "$python")"/idle*
rm -rf /usr/bin/apt* /usr/lib/apt /etc/apt /var/lib/apt /var/cache/apt
find / -xdev -type f -perm /6000 -exec chmod a-s {} +

# Bytecode of the standard library that does not depend on the times of files, which image builders change.
checked=$(python3 -c 'import argparse; print(open(argparse.__cached__, "rb").read(8)[4])' 2>/dev/null || echo 0)
[ "$checked" = 1 ] || python3 -m compileall -qf --invalidation-mode unchecked-hash -x '/(test|tests|lib2to3)/' "$library"
