#!/bin/busybox sh
# The first program of the guest: loads modules, mounts the root and hands over to guest.py, which stays.
# With agent.probe=1 on the command line it only says that a kernel can run here.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
fail() {
  echo "agent-init: $1"
  $b reboot -f
}
if $b grep -q 'agent\.probe=1' /proc/cmdline; then
  echo AGENT_PROBE_OK
  $b reboot -f
fi
while read -r name; do
  $b insmod "/modules/$name.ko" || echo "agent-init: cannot load $name"
done </modules/order
tries=0
while [ ! -b /dev/vda ]; do
  tries=$((tries + 1))
  [ $tries -le 100 ] || fail "there is no root disk"
  $b usleep 50000
done
$b mount -t ext4 -o ro,nodev,noload /dev/vda /root || fail "cannot mount the root disk"
$b mount -t tmpfs -o mode=0755,nosuid,nodev,size=16m run /root/run || fail "the root has no /run"
$b cp /guest.py /root/run/guest.py
for name in proc sys dev; do
  $b mount -o move /$name /root/$name || fail "the root has no /$name"
done
for python in /opt/agent/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do
  [ -x "/root$python" ] || [ -L "/root$python" ] && exec $b switch_root /root "$python" -I -S /run/guest.py
done
fail "the root has no python3"
