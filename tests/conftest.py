"""What holds for every test."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

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


class GroupOrFile(LoadScopeScheduling):
    """Keeps the tests of a file in one worker, so that what its fixtures start is started once.

    The groups that `xdist_group` names are kept together across files.
    """

    def _split_scope(self, nodeid: str) -> str:
        group = nodeid.rfind("@")
        return nodeid[group + 1 :] if group > nodeid.rfind("]") else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Replace what `--dist loadgroup` means, which would spread the tests of a file over the workers."""
    return GroupOrFile(config, log) if config.getoption("dist") == "loadgroup" else None
