"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A developer's own keys and settings must not reach a test: without a key no real model can be called.
for name in list(os.environ):
    if name.startswith(("AGENT_", "MESH_", "OPENAI_")) or name == "MODEL" or name.lower().endswith("_proxy"):
        del os.environ[name]

# How fast examples come says something about the machine; pytest ends what hangs.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
