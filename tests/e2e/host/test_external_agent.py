"""An agent that another program runs lets the host reach its API: it opens the connections, over its own channel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_testing import LiveProcess, Say, ScriptedProvider
from tests.integration.host.live import PATIENCE, Host, catalog
from tests.ports import free_port

from .gateway_uses import agent, check_quarantine_cuts_streams, use_everything
from .test_restore import again, until

SERVE = [sys.executable, "-m", "agent_runtime", "serve"]


class World:
    """A host, and agents that it does not start."""

    def __init__(self, host: Host, provider: ScriptedProvider, folder: Path, work: str) -> None:
        self.host, self.provider, self._folder, self._work = host, provider, folder, work

    def create(self, name: str, **more: Any) -> dict[str, Any]:
        made = self.host.operator.post("/workspaces", json={"id": name, "driver": "external", **more})
        assert made.status_code == 201, made.text
        return made.json()

    def run(self, made: dict[str, Any], **settings: str) -> LiveProcess:
        name = made["id"]
        proof = {}
        if made["mediation_key"] is not None:
            key = self._folder / f"{name}.key"
            key.write_text(made["mediation_key"])
            proof = {"AGENT_MEDIATION_KEY_FILE": str(key)}
        given = {
            "AGENT_ID": name,
            "AGENT_PORT": "0",
            "AGENT_TOKEN": made["token"],
            "AGENT_DATA_DIR": str(self._folder / name),
            "AGENT_MESH_URL": f"http+unix://{str(self._folder / 'mesh.sock').replace('/', '%2F')}",
            "AGENT_MESH_TOKEN": self.host.token(name),
            "AGENT_MEDIATION_URL": self._work,
            "AGENT_MEDIATION_API": "true",
            **proof,
        }
        return LiveProcess(SERVE, given | settings, timeout=PATIENCE)

    def until_attached(self, name: str) -> None:
        until(lambda: self.host.operator.get(f"/workspaces/{name}").json()["mediationReady"]["ready"], "it is attached")


@pytest.fixture(scope="module", params=["unix", pytest.param("tcp", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("far")
    work = f"unix:{folder / 'work.sock'}" if request.param == "unix" else f"tcp://127.0.0.1:{free_port()}"
    with (
        ScriptedProvider(otherwise=Say("well said")) as provider,
        Host(
            folder / "data",
            MESH_MODELS=catalog(folder, provider),
            UPSTREAM_KEY="sk-1",
            MESH_LISTEN=f"unix:{folder / 'mesh.sock'}",
            MESH_LISTENER_URL=work,
        ) as host,
    ):
        yield World(host, provider, folder, work)


@pytest.mark.slow
def test_it_is_used_like_any_other(world: World) -> None:
    made = world.create("far")
    with agent(world.host, "far") as far:
        unattached = far.get("status")
        assert (unattached.status_code, unattached.json()["code"]) == (502, "agent_unreachable")
        with world.run(made, AGENT_MEDIATION_REQUIRED="true"), ExitStack() as streams:
            world.until_attached("far")
            use_everything(far, world.provider, "far")
            for _ in range(20):
                reply = streams.enter_context(far.stream("GET", "events"))
                assert reply.status_code == 200
            assert far.get("status").status_code == 200
            check_quarantine_cuts_streams(world.host, world.provider, "far", rounds=1)  # its token is gone then


@pytest.mark.slow
def test_one_that_does_not_offer_it_is_not_reached(world: World) -> None:
    with world.run(world.create("shy"), AGENT_MEDIATION_API="false"), agent(world.host, "shy") as shy:
        world.until_attached("shy")
        refused = shy.get("status")
        assert (refused.status_code, refused.json()["code"]) == (501, "not_offered")


@pytest.mark.slow
def test_one_without_a_key_is_reached_by_its_own_address(world: World, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'own.sock'}"
    made = world.create("own", auth="none", listen=address)
    with world.run(made, AGENT_MEDIATION_URL=address), agent(world.host, "own") as own:
        world.until_attached("own")
        assert own.get("status").json()["agent_id"] == "own"


@pytest.mark.slow
def test_it_is_reached_again_when_the_host_was_killed(world: World) -> None:
    with world.run(world.create("back")):
        world.until_attached("back")
        again(world.host, kill=True)
        world.until_attached("back")
        with agent(world.host, "back") as back:
            assert back.get("status").json()["agent_id"] == "back"


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (
            {"AGENT_TOKEN": "", "AGENT_MEDIATION_URL": "unix:/x"},
            "AGENT_MEDIATION_API: .*needs AGENT_MEDIATION_URL, and",
        ),
        ({"AGENT_TOKEN": "t"}, "AGENT_MEDIATION_API: .*needs AGENT_MEDIATION_URL, and"),
        (
            {"AGENT_TOKEN": "t", "AGENT_MEDIATION_URL": "unix:/x", "AGENT_MEDIATION_DIALECT": "loose"},
            "AGENT_MEDIATION_API: .*the loose dialect has no extensions",
        ),
    ],
)
def test_settings_that_do_not_fit_stop_the_start(settings: dict[str, str], fault: str, tmp_path: Path) -> None:
    given = {"AGENT_MEDIATION_API": "true", "AGENT_DATA_DIR": str(tmp_path / "d"), "AGENT_PORT": "0"}
    with LiveProcess(SERVE, given | {name: value for name, value in settings.items() if value}) as process:
        assert process.wait(PATIENCE) != 0
        assert process.wait_for_output(fault)
