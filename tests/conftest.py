"""What holds for every test."""

from __future__ import annotations

import os
import signal

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

# How fast examples come says something about the machine; pytest ends what hangs.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
