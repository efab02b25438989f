#!/usr/bin/env bash
# Builds an image and writes it as an OCI layout: build.sh FOLDER [agent-runtime | agent-host | agent-bots].
# IMAGE_ENGINE=docker|podman|buildah, else the first that works. BASE_IMAGE names a base; without one a Debian base is made
# by mmdebstrap and kept by a key of its inputs, or where that is not there the Dockerfile's own is pulled.
# The way by docker has not been run.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${2:-agent-runtime}
case $name in
agent-runtime) dockerfile=Dockerfile layout=oci ;;
agent-host) dockerfile=images/host/Dockerfile layout=oci-host ;;
agent-bots) dockerfile=images/bots/Dockerfile layout=oci-bots ;;
*) echo "image: there is no image $name" >&2 && exit 1 ;;
esac
folder=$(mkdir -p "$1" && cd "$1" && pwd)
say() { echo "image: $*" >&2; }

engine=${IMAGE_ENGINE:-}
if [ -z "$engine" ]; then
  for engine in docker podman buildah none; do
    case $engine in
    docker) docker info >/dev/null 2>&1 && docker buildx version >/dev/null 2>&1 && break ;;
    *) command -v "$engine" >/dev/null && break ;;
    esac
  done
fi
# shellcheck source=images/engine.sh
. images/engine.sh "$engine" "$folder"

pip=$("${PYTHON:-python3}" images/lent_pip.py)
# Certificates and the index of this machine's pip, lent to the build and never a part of a layer.
lent=$(mktemp -d)
trap 'rm -rf "$lent"' EXIT
bundle=${PIP_CERT:-${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}}
: >"$lent/ca.pem" && if [ -r "$bundle" ]; then cat "$bundle" >"$lent/ca.pem"; fi
echo "[global]" >"$lent/pip.conf"
"${PYTHON:-python3}" "$(echo "$pip"/pip-*.whl)/pip" --disable-pip-version-check config list 2>/dev/null |
  sed -nE "s/^(global|install|:env:)\.(index-url|extra-index-url|trusted-host|proxy|timeout|default-timeout)='(.*)'$/\2 = \3/p" |
  grep -v 'file://' | sed 's/^default-timeout/timeout/' | sort -u -t= -k1,1 >>"$lent/pip.conf" || true

base=${BASE_IMAGE:-}
if [ -z "$base" ] && [ "$engine" != docker ] && command -v mmdebstrap >/dev/null; then
  key=$(cat images/base.sh <(echo "${SUITE:-bookworm}"; uname -m) | sha256sum | cut -c1-16)
  if [ ! -f "$folder/base-$key.tar" ]; then
    say "making the Debian base (kept as base-$key.tar)"
    rm -f "$folder"/base-*.tar
    timeout --kill-after=10 $seconds images/base.sh "$folder/base-$key.tar"
  fi
  base=localhost/agent-runtime-base:$key
  if ! engine_has "$base"; then
    mkdir "$lent/base" && ln "$folder/base-$key.tar" "$lent/base/base.tar" 2>/dev/null || cp "$folder/base-$key.tar" "$lent/base/base.tar"
    printf 'FROM scratch\nADD base.tar /\n' >"$lent/base/Dockerfile"
    engine_build "$base" "$lent/base"
  fi
fi

version=$(sed -nE 's/^version = "(.*)"$/\1/p' pyproject.toml | head -1)
revision=$(git rev-parse --verify -q HEAD 2>/dev/null || echo unknown)
say "building $name with $engine on ${base:-the base of the Dockerfile}"
engine_build "localhost/$name:latest" . -f "$dockerfile" ${base:+--build-arg BASE_IMAGE="$base"} \
  --build-arg SYSTEM="$(cat images/steps/system.sh images/host/folders.sh | sha256sum | cut -c1-16)" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
  --secret id=pip.conf,src="$lent/pip.conf" --secret id=ca.pem,src="$lent/ca.pem" "${engine_lends[@]/PIP/$pip}"
rm -rf "${folder:?}/$layout"
engine_export "localhost/$name:latest" "$folder/$layout"
digest=
[ "$engine" = docker ] || digest=$("${PYTHON:-python3}" images/digest.py "$folder/$layout")
say "written to $folder/$layout $digest"
