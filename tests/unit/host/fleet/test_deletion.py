"""A deletion that ends at any step is finished by the next host, and until then the workspace does nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agent_common.clock import SystemClock
from agent_host.access import TokenStore
from agent_host.database import open_database
from agent_host.errors import Conflict, NotFound
from agent_host.fleet import Fleet, WorkspaceChanges, WorkspaceDeletion, Workspaces
from agent_host.fleet.deletion import DeletionFailed

from .test_supervisor import Driver


class Died(BaseException):
    """The host ends here."""


class Mortal(WorkspaceDeletion):
    """Ends at the named step."""

    dies_at = ""

    def reach(self, step: str) -> None:
        if self.dies_at == step:
            raise Died


class Sockets(Driver):
    """A driver whose workspaces have a folder of sockets."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.deletion: Mortal | None = None

    async def remove(self, workspace_id: str) -> Path | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.deletion is not None:
            self.deletion.reach("driver")
        return self.root / workspace_id


class World:
    def __init__(self, fleet: Fleet, deletion: Mortal, changes: WorkspaceChanges, removed: list[str]) -> None:
        self.fleet, self.deletion, self.changes, self.removed = fleet, deletion, changes, removed


@asynccontextmanager
async def host(folder: Path, dies_at: str = "") -> AsyncGenerator[World]:
    """One life of a host over a folder."""
    clock, removed = SystemClock(), list[str]()
    with closing(open_database(f"sqlite:///{folder}/mesh.db")) as database:
        driver = Sockets(folder / "vm")
        workspaces, tokens = Workspaces(database, folder / "workspaces", clock), TokenStore(database, clock)
        fleet = Fleet(workspaces, {"mortal": driver}, tokens, "")
        await fleet.open()
        deletion = driver.deletion = Mortal(fleet, workspaces, {"mortal": driver}, tokens)
        deletion.dies_at = dies_at

        async def remove_channel(workspace_id: str) -> None:
            deletion.reach("channel")
            removed.append(workspace_id)

        deletion.remove_channel = remove_channel
        changes = WorkspaceChanges(fleet, workspaces, {"mortal": driver})
        try:
            yield World(fleet, deletion, changes, removed)
        finally:
            deletion.dies_at = ""
            await deletion.close()
            await fleet.close()


def folders_of(folder: Path) -> list[Path]:
    return [folder / "workspaces/writer", folder / "vm/writer"]


async def create(world: World, folder: Path) -> None:
    await world.fleet.create("writer")
    for path in folders_of(folder):
        path.mkdir(parents=True)
        (path / "file").touch()


async def gone(fleet: Fleet) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await fleet.get("writer")
            except NotFound:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("step", ["channel", "driver"])
async def test_the_next_host_finishes(tmp_path: Path, step: str) -> None:
    async with host(tmp_path, step) as world:
        await create(world, tmp_path)
        with pytest.raises(Died):
            await world.deletion.delete("writer")
    async with host(tmp_path) as world:
        assert (await world.fleet.get("writer")).state == "deleting"
        world.deletion.start()
        await gone(world.fleet)
        assert world.removed == ["writer"]
        assert not any(path.exists() for path in folders_of(tmp_path))
        assert (await world.fleet.create("writer")).state == "stopped"


async def test_what_is_being_deleted_does_nothing_else(tmp_path: Path) -> None:
    async with host(tmp_path, "channel") as world:
        await create(world, tmp_path)
        with pytest.raises(Died):
            await world.deletion.delete("writer")
        with pytest.raises(Conflict, match="is being deleted"):
            await world.fleet.start("writer")
        with pytest.raises(Conflict, match="is being deleted"):
            await world.changes.change("writer", team="x", settings={}, channel_changes=False)
        with pytest.raises(Conflict, match="there is a workspace"):
            await world.fleet.create("writer")
        assert (await world.fleet.stop("writer")).state == "deleting"
        world.deletion.dies_at = ""
        await world.deletion.delete("writer", force=True)
        await gone(world.fleet)


async def test_what_cannot_be_deleted_says_so_and_is_tried_again(tmp_path: Path) -> None:
    async with host(tmp_path) as world:
        await create(world, tmp_path)
        (tmp_path / "vm").rename(tmp_path / "away")
        (tmp_path / "vm").symlink_to("vm")
        with pytest.raises(DeletionFailed, match=r"'writer' is not deleted yet, delete it again: .*symbolic links"):
            await world.deletion.delete("writer")
        assert (await world.fleet.get("writer")).state == "deleting"
        (tmp_path / "vm").unlink()
        (tmp_path / "away").rename(tmp_path / "vm")
        await world.deletion.delete("writer")
        assert not any(path.exists() for path in folders_of(tmp_path))


async def test_a_workspace_of_another_hosts_driver_is_not_deleted(tmp_path: Path) -> None:
    async with host(tmp_path) as world:
        await create(world, tmp_path)
        other = WorkspaceDeletion(world.fleet, world.changes._workspaces, {}, world.fleet._tokens)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(DeletionFailed, match="no driver 'mortal'"):
            await other.delete("writer")
        assert (await world.fleet.get("writer")).state == "stopped"
        assert all(path.exists() for path in folders_of(tmp_path))


async def test_a_runtime_that_is_due_to_restart_is_not_started_any_more(tmp_path: Path) -> None:
    async with host(tmp_path) as world:
        await create(world, tmp_path)
        running = await world.fleet.start("writer")
        assert running.state == "running"
        with pytest.raises(Conflict, match="is running; stop it first"):
            await world.deletion.delete("writer")
        forgotten: list[str] = []
        world.deletion.on_deleting = forgotten.append
        await world.deletion.delete("writer", force=True)
        assert forgotten == ["writer"]
        await gone(world.fleet)
