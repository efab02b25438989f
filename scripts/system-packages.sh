#!/usr/bin/env bash
# The Debian packages beside Python: installs what is missing when it may, else names it and goes on.
# system-packages.sh [PYTHON]: what the agent needs, for that interpreter; system-packages.sh node: what tests need besides;
# browser: what looks at a page; pictures: what draws one; image: what builds the guest's image and its disk;
# container: what runs it; microvm: what boots it (the guest's kernel is fetched by images/initrd/build.sh and not
# installed).
set -euo pipefail
wanted=${1:-python3}

missing=()
if [ "$wanted" = node ]; then
  command -v node >/dev/null || missing+=(nodejs) # what an agent of our tests has on its PATH
  command -v ip >/dev/null || missing+=(iproute2) # networks that tests make themselves
  command -v tmux >/dev/null || missing+=(tmux) # a terminal for the chat
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
elif [ "$wanted" = browser ]; then
  command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || missing+=(chromium-headless-shell)
elif [ "$wanted" = pictures ]; then
  command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || missing+=(chromium-headless-shell)
  [ -e /usr/share/fonts/truetype/noto/NotoColorEmoji.ttf ] || missing+=(fonts-noto-color-emoji)
  [ -e /usr/share/fonts/truetype/vlgothic/VL-Gothic-Regular.ttf ] || missing+=(fonts-vlgothic)
  command -v tmux >/dev/null || missing+=(tmux)
elif [ "$wanted" = image ]; then
  docker info >/dev/null 2>&1 || command -v podman >/dev/null || command -v buildah >/dev/null || missing+=(podman)
  command -v mmdebstrap >/dev/null || missing+=(mmdebstrap) # the base, where none is pulled
  PATH=$PATH:/usr/sbin:/sbin command -v mke2fs >/dev/null || missing+=(e2fsprogs)
  "${PYTHON:-python3}" images/lent_pip.py >/dev/null 2>&1 || missing+=(python3-venv) # pip, which is lent to the build
elif [ "$wanted" = container ]; then
  for program in podman runc conmon; do command -v $program >/dev/null || missing+=($program); done
  [ -e /usr/lib/podman/netavark ] || [ -e /usr/lib/cni/portmap ] || missing+=(containernetworking-plugins) # published ports
  PATH=$PATH:/usr/sbin:/sbin command -v iptables >/dev/null || missing+=(iptables)
elif [ "$wanted" = microvm ]; then
  PATH=$PATH:/usr/sbin:/sbin
  command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
  [ -e /usr/share/seabios/bios-256k.bin ] || missing+=(seabios) # q35's firmware
  busybox=$(command -v busybox) && ! ldd "$busybox" >/dev/null 2>&1 || missing+=(busybox-static)
  for program in cpio gzip; do command -v $program >/dev/null || missing+=($program); done
  command -v xz >/dev/null || missing+=(xz-utils) # modules of newer kernels
  command -v mke2fs >/dev/null || missing+=(e2fsprogs)
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
  if [[ " ${missing[*]} " = *" postgresql "* ]]; then # tests start a server of their own: no other one is made
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
      echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  fi
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >&2 && exit 0
fi
echo "Missing: ${missing[*]}. Install with: sudo apt-get install ${missing[*]}" >&2
