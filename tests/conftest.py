"""What holds for every test."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.measured import MEASURED

# A developer's own keys and settings must not reach a test: without a key no real model can be called.
for name in list(os.environ):
    if name.startswith(("AGENT_", "MESH_", "OPENAI_")) or name == "MODEL" or name.lower().endswith("_proxy"):
        del os.environ[name]
for name in MEASURED:
    del os.environ[name]

# Whoever runs the tests in the background hands down that interrupts are ignored, and so would each server.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast examples come says something about the machine; pytest ends what hangs. `dev` is what a change is tried
# with, `ci` what the build server takes the time for.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", PATIENT, max_examples=25)
settings.register_profile("ci", PATIENT, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Have coverage measure the workers too; this process hands the tests to them and runs none itself."""
    if getattr(config.option, "numprocesses", None):
        os.environ.update(MEASURED)
