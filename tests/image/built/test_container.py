"""A container without a network does a whole job over the unix sockets of its host, and again in its next life."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.integration.host.live import Host, catalog

from .engine import UID, Container
from .jobs import TALK, completed, ended, hand_in, the_one_answer, told, until_ready, weigh

pytestmark = pytest.mark.timeout(300)
MESH = "/run/mesh"
SECRETS = "/run/agent"
GUEST = "guest"
PRY = f"cat {SECRETS}/* 2>&1; ls {MESH} 2>&1; ls /proc/1/environ /data 2>&1; touch /nope 2>&1; echo pried"


class House:
    """A host, and the lives of one agent in containers on the same volume."""

    def __init__(self, host: Host, provider: ScriptedProvider, *options: str, **settings: str) -> None:
        self.host, self.provider = host, provider
        self._options, self._settings = options, settings
        self._life = ExitStack()

    def boot(self) -> None:
        """A new container; an older one is gone."""
        self.end()
        self.guest = self._life.enter_context(Container(*self._options, **self._settings))
        self.guest.wait_for_output('"event": "ready"')
        until_ready(self.host, GUEST)

    def end(self) -> None:
        self._life.close()

    def talk(self) -> dict[str, Any]:
        """Everything that was said, by session, as the agent itself tells it."""
        return json.loads(self.guest.run("python", "-c", TALK))


def given(folder: Path, **files: str) -> Path:
    """Secrets as files that only the guest's user may read."""
    folder.mkdir(mode=0o500)
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o400)
        os.chown(path, UID, UID)
    os.chown(folder, UID, UID)
    return folder


def owned(folder: Path, uid: int, gid: int, mode: int) -> Path:
    folder.mkdir()
    os.chown(folder, uid, gid)
    folder.chmod(mode)
    return folder


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    assert os.geteuid() == 0, "the container test runs as root: it gives sockets and secrets to the guest's user"
    folder = tmp_path_factory.mktemp("house")
    doors = owned(folder / "mesh", 0, UID, 0o2750)  # the group that may connect, which the sockets inherit
    data = owned(folder / "volume", UID, UID, 0o700)
    with (
        ScriptedProvider(models=("big-1", "vectors-1")) as provider,
        Host(
            folder / "data",
            MESH_MODELS=catalog(folder, provider),
            UPSTREAM_KEY="sk-never-in-the-guest",
            MESH_HOST="off",
            MESH_LISTEN=f"unix:{doors / 'mesh.sock'}",
            MESH_LISTENER_URL=f"unix:{doors / 'work.sock'}",
        ) as host,
    ):
        made = host.operator.post("/workspaces", json={"id": GUEST, "driver": "external"})
        assert made.status_code == 201, made.text
        secrets = given(
            folder / "secrets", token="door-token", mesh=host.token(GUEST), key=made.json()["mediation_key"]
        )
        house = House(
            *(host, provider, "--volume", f"{data}:/data"),
            *("--volume", f"{doors}:{MESH}:ro", "--volume", f"{secrets}:{SECRETS}:ro"),
            AGENT_ID=GUEST,
            AGENT_TOKEN_FILE=f"{SECRETS}/token",
            AGENT_MESH_URL=f"http+unix://{quote(f'{MESH}/mesh.sock', safe='')}",
            AGENT_MESH_TOKEN_FILE=f"{SECRETS}/mesh",
            AGENT_MEDIATION_URL=f"unix:{MESH}/work.sock",
            AGENT_MEDIATION_REQUIRED="true",
            AGENT_MEDIATION_KEY_FILE=f"{SECRETS}/key",
            AGENT_CONFINEMENT="required",
        )
        try:
            house.boot()
            yield house
        finally:
            house.end()


def test_a_whole_job_with_a_skill_that_is_written_and_mended(house: House) -> None:
    house.provider.script.replace([
        Call("create_skill", weigh(factor=2)),
        Call("weigh", {"words": "walnut"}),
        Call("create_skill", weigh(factor=3)),
        Call("weigh", {"words": "walnut"}),
        Say("It weighs 18 grams."),
    ])  # fmt: skip
    question = "How much does a walnut weigh?"
    assert completed(house.host, GUEST, "job", question) == "It weighs 18 grams."
    answers = told(house.provider)
    assert ('"grams":12' in answers[1], '"grams":18' in answers[3]) == (True, True), answers
    record = ended(house.host, "job")
    assert record["attempts"] == 1
    assert hand_in(house.host, GUEST, "job", question) == (200, record)
    assert {call["agent_id"] for call in house.host.recent()} == {GUEST}


def test_the_session_and_the_skill_outlive_the_container(house: House) -> None:
    before = house.talk()
    assert "How much does a walnut weigh?" in json.dumps(before)
    assert house.guest.stop() == 0
    house.boot()
    assert house.talk() == before

    house.provider.clear()
    status, _ = hand_in(house.host, GUEST, "job", "How much does a walnut weigh?")
    assert (status, house.provider.completions) == (200, [])

    house.provider.script.replace([Call("weigh", {"words": "hazelnut"}), Say("24 grams.")])
    assert completed(house.host, GUEST, "later", "And a hazelnut?") == "24 grams."
    assert '"grams":24' in told(house.provider)[-1]
    assert "How much does a walnut weigh?" in json.dumps(house.provider.completions[-1].messages)


def test_work_that_a_kill_interrupts_ends_with_one_result(house: House) -> None:
    house.provider.clear()
    house.provider.script.replace([Call("weigh", {"words": "nut"}), Hang(), Say("9 grams, after all.")])
    status, record = hand_in(house.host, GUEST, "cut", "And any nut?")
    assert status == 202, record
    house.provider.wait_for(2)
    house.guest.kill()
    house.boot()
    assert the_one_answer(house.host, "cut") == "9 grams, after all."


def test_a_command_reaches_nothing_of_the_server(house: House) -> None:
    house.provider.script.replace([Call("bash", {"command": PRY}), Say("nothing")])
    completed(house.host, GUEST, "pry", "Look around.")
    answer = told(house.provider)[-1]
    assert "pried" in answer, answer
    for secret in ("door-token", "work.sock", "mesh.sock", "agent.db"):
        assert secret not in answer, answer


def test_it_is_held_as_was_promised(house: House) -> None:
    _, status = house.guest.server()
    assert status["Uid"].split() == [str(UID)] * 4
    assert {status[name].strip("0") for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert house.guest.run("agent-healthz") == ""
    assert house.guest.run("python", "-c", "import os; print(os.listdir('/sys/class/net'))").strip() == "['lo']"
    write = "import pathlib\ntry: pathlib.Path('/opt/x').write_text('x')\nexcept OSError as error: print(error.errno)"
    assert house.guest.run("python", "-c", write).strip() in ("13", "30")


def test_it_stops_in_good_order_and_nothing_of_the_host_was_in_it(house: House) -> None:
    environment = Path(f"/proc/{house.guest.server()[0]}/environ").read_bytes()
    assert b"sk-never-in-the-guest" not in environment
    assert b"door-token" not in environment
    assert house.guest.stop() == 0
    assert "sk-never" not in house.guest.output()
