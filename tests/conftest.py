"""Set up what holds for every test."""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.measured import MEASURED

# A developer's own keys and settings must not reach a test: without a key no real model can be called.
for name in list(os.environ):
    if (
        name.startswith(("AGENT_", "ANTHROPIC_", "MESH_", "OPENAI_", "BOTS_", "TELEGRAM_", "DISCORD_"))
        or name == "MODEL"
        or name.lower().endswith("_proxy")
    ):
        del os.environ[name]
for name in MEASURED:
    del os.environ[name]
# `make test ARGS=...` hands its arguments down to every `make` that a test runs.
for name in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS"):
    os.environ.pop(name, None)

# A shell that runs the tests in the background has them, and so each server, ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The speed of examples depends on the machine, and pytest ends a test that hangs. `dev` is for developers, `ci` for the
# build server.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", PATIENT, max_examples=25)
settings.register_profile("ci", PATIENT, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Have coverage measure the workers too; this process hands the tests to them and runs none itself."""
    if getattr(config.option, "numprocesses", None):
        os.environ.update(MEASURED)
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep ten thousand tests out of each look for garbage from now on; until now there was none."""
    gc.enable()
    gc.freeze()
