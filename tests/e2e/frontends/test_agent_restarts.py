"""The agent ends in the middle, and comes back; or it does not run at all."""

from __future__ import annotations

import os
import signal

import pytest

from agent_client import Mesh
from agent_testing import Call, Say
from frontends.conversation import Later
from tests.integration.host.live import OPERATOR

from .conftest import WORKSPACE, Bots, children_of

pytestmark = pytest.mark.slow
WELL = Say("well said")


async def test_a_turn_that_a_restart_has_cut_says_so(bots: Bots) -> None:
    bots.world.provider.script.replace([Call("bash", {"command": "sleep 30"})], otherwise=WELL)
    await bots.says("wait")
    await bots.until_found("sleep 30")
    for pid in children_of(bots.world.host.process.pid):
        os.kill(pid, signal.SIGKILL)
    await bots.until_found("The agent was restarted in the middle of this.")
    await bots.says("and now?")
    await bots.until_found("well said")
    assert len(bots.platform.messages) == 2


async def test_an_agent_that_does_not_run_gets_its_messages_later(bots: Bots) -> None:
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        await mesh.workspaces.stop(WORKSPACE)
        with pytest.raises(Later, match="does not run"):
            await bots.says("hello")
        assert bots.platform.messages == {}
        await mesh.workspaces.start(WORKSPACE)
    await bots.says("hello")
    await bots.until_shown("well said")
