"""The listener sends nothing to a machine that is paused, and goes on when it runs again or has ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agent_common.clock import SystemClock
from agent_host.access import AccessGuard, TokenStore
from agent_host.database import open_database
from agent_host.fleet import Fleet, LaunchRequest, Workspaces
from agent_host.fleet_bridge import FleetBridge
from agent_host.settings import HostSettings

from .test_supervisor import Driver, Mortal


class Machine(Mortal):
    """A runtime whose machine is paused when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.on_paused: Callable[[bool], None] = self.ignore_pause

    def ignore_pause(self, paused: bool) -> None:
        return


class MachineDriver(Driver):
    async def start(self, launch: LaunchRequest) -> Mortal:
        self.lives.append(Machine())
        return self.lives[-1]


async def test_a_paused_machine_holds_back_its_work(tmp_path: Path) -> None:
    clock = SystemClock()
    driver = MachineDriver()
    with closing(open_database(f"sqlite:///{tmp_path}/mesh.db")) as database:
        tokens = TokenStore(database, clock)
        fleet = Fleet(Workspaces(database, tmp_path, clock), {"machine": driver}, tokens, "")
        guard = AccessGuard(tokens, clock)
        bridge = FleetBridge(
            fleet, guard, settings=HostSettings(data_dir=tmp_path), database=database, clock=clock, bound=None
        )
        await bridge.listener.open()
        await fleet.create("writer")
        await bridge.listener.workspaces.enrol("writer")
        channel = bridge.listener.channels.get("writer")
        await fleet.start("writer")
        machine = driver.lives[-1]
        assert isinstance(machine, Machine)
        for paused in (True, True, False, False, True):
            machine.on_paused(paused)
            assert channel.paused is paused
        await bridge.listener.workspaces.delete_channel("writer")
        machine.on_paused(False)
        await fleet.close()
        await bridge.close()
        await bridge.listener.close()
