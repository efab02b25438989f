#!/usr/bin/env bash
# The kernel and the first disk of a microVM: build.sh FOLDER puts vmlinuz and initrd.gz there.
# The kernel is Debian's for clouds, taken from its package; nothing of it is installed. The initrd has busybox, the few
# modules that root, data and vsock need, and our two programs. What does not change between builds is the same to the byte.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?"build.sh FOLDER [KERNEL_PACKAGE.deb]"}
given=${2:-}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in cpio gzip dpkg-deb busybox; do
  command -v "$tool" >/dev/null || { echo "initrd: there is no $tool; install cpio, gzip, dpkg and busybox-static" >&2; exit 1; }
done
ldd "$(command -v busybox)" >/dev/null 2>&1 &&
  { echo "initrd: busybox must be the static one; install busybox-static" >&2; exit 1; }

cd "$work"
newest() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\)/\1/p' | head -1; }
if [ -z "$given" ]; then
  name=$(newest)
  [ -n "$name" ] || [ "$(id -u)" -ne 0 ] || { apt-get update -qq >&2 && name=$(newest); }
  [ -n "$name" ] || { echo "initrd: apt knows no linux-image-cloud-amd64; run apt-get update" >&2; exit 1; }
  given=$out/$name.deb # kept: it is the largest part of the work
  if [ ! -f "$given" ]; then
    echo "initrd: fetching $name" >&2
    # A list that is older than the mirror names packages that are gone.
    apt-get download -qq "$name" 2>fault || { [ "$(id -u)" -eq 0 ] && apt-get update -qq >&2 && name=$(newest) &&
      given=$out/$name.deb && apt-get download -qq "$name"; } || { cat fault >&2; exit 1; }
    rm -f "$out"/linux-image-*.deb
    mv "$work"/*.deb "$given"
  fi
fi
dpkg-deb -x "$given" kernel
modules=$(echo kernel/lib/modules/*/kernel)

# In the order in which they are loaded.
names="drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci_modern_dev
  drivers/virtio/virtio_pci drivers/virtio/virtio_mmio drivers/block/virtio_blk net/vmw_vsock/vsock
  net/vmw_vsock/vmw_vsock_virtio_transport_common net/vmw_vsock/vmw_vsock_virtio_transport"
mkdir -p disk/bin disk/modules disk/root disk/proc disk/sys disk/dev
for name in $names; do
  if [ -f "$modules/$name.ko.xz" ]; then xz -dc "$modules/$name.ko.xz" >"disk/modules/${name##*/}.ko" # newer Debians
  else cp "$modules/$name.ko" disk/modules/; fi
  echo "${name##*/}" >>disk/modules/order
done
cp "$(command -v busybox)" disk/bin/busybox
install -m 0755 "$here/init.sh" disk/init
install -m 0644 "$here/guest.py" disk/guest.py

find disk -exec touch -h -d @0 {} +
(cd disk && find . | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 -o -H newc) | gzip -9n >"$out/initrd.gz.new"
cp kernel/boot/vmlinuz-* "$out/vmlinuz.new"
chmod 0644 "$out/initrd.gz.new" "$out/vmlinuz.new" # a machine's user reads them
mv "$out/initrd.gz.new" "$out/initrd.gz"
mv "$out/vmlinuz.new" "$out/vmlinuz"
