# What docker, podman and buildah do alike. Sourced with the engine's name and the folder that holds its images:
# engine_has IMAGE, engine_build IMAGE CONTEXT [ARGUMENT...], engine_export IMAGE LAYOUT.
engine=$1
epoch=315532800 # every file's time: the same source gives the same layers
engine_lends=()
seconds=900 # the most that one step of an engine may take

case $engine in
docker) ;;
podman | buildah)
  # Overlays need no copy of the image for each layer; where the kernel refuses them copies have to do.
  probe=$(mktemp -d -p "$2") && mkdir "$probe/a" "$probe/b" "$probe/c" "$probe/d"
  if mount -t overlay overlay -o "lowerdir=$probe/a,upperdir=$probe/b,workdir=$probe/c" "$probe/d" 2>/dev/null; then
    umount "$probe/d" && driver=overlay
  else
    driver=vfs
  fi
  rm -rf "$probe"
  run=$2/run
  [ ${#run} -le 50 ] || run=/run/agent-image-$(echo "$2" | sha256sum | cut -c1-12) # podman takes no longer one
  store=(--root "$2/store" --runroot "$run" --storage-driver "$driver")
  printf '%s\n' "${store[@]}" >"$2/store.options" # for whoever runs what is built here
  tool=(timeout --kill-after=10 $seconds "$engine" "${store[@]}")
  [ "$engine" = buildah ] || tool+=(--cgroup-manager cgroupfs --events-backend file)
  engine_lends=(-v PIP:/run/pip:ro)
  export BUILDAH_ISOLATION=chroot # needs no container runtime that likes this machine
  ;;
*)
  echo "image: none of docker (with a running daemon), podman and buildah is here" >&2
  exit 1
  ;;
esac

engine_has() {
  if [ "$engine" = buildah ]; then "${tool[@]}" inspect --type image "$1" >/dev/null 2>&1
  elif [ "$engine" = podman ]; then "${tool[@]}" image exists "$1"
  else docker image inspect "$1" >/dev/null 2>&1; fi
}

engine_build() {
  local image=$1 context=$2
  shift 2
  case $engine in
  # The health check is docker's: OCI images have no word for it.
  podman | buildah) "${tool[@]}" build --quiet --format docker --layers --timestamp "$epoch" "$@" -t "$image" "$context" >/dev/null ;;
  docker) timeout --kill-after=10 $seconds docker buildx build --quiet --load --build-arg SOURCE_DATE_EPOCH="$epoch" "$@" -t "$image" "$context" >/dev/null ;;
  esac
}

engine_export() {
  case $engine in
  podman | buildah) "${tool[@]}" push --quiet --format oci "$1" "oci:$2:latest" ;;
  docker) mkdir -p "$2" && docker image save "$1" | tar -x -C "$2" ;;
  esac
}
