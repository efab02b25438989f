"""A microVM of the built image: whole jobs over vsock without a network card, a kill in the middle, quarantine."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from agent_testing import Call, Hang, Say
from tests.e2e.host.gateway_uses import agent, check_quarantine_cuts_streams, use_everything

from .house import KEY, MONITOR, House, eventually
from .machine import connected

pytestmark = pytest.mark.timeout(600)
SKILL = '''
@skill
def weigh(words: str) -> dict:
    """How much some words weigh."""
    return {{"grams": len(words) * {factor}}}
'''
LOOK = """
import glob, json, os
classes = [open(path).read().strip() for path in glob.glob("/sys/bus/pci/devices/*/class")]
print(json.dumps({"cards": os.listdir("/sys/class/net"), "classes": classes, "kernel": open("/proc/version").read()}))
"""
NETWORK_CLASS = "0x02"
DOORS = {"v.sock", "v.sock_2048", "v.sock_8420", "v.sock_8421"}


def test_a_whole_job_over_vsock_and_a_volume_that_stays(house: House) -> None:
    house.start()
    found = json.loads(house.run("python", "-c", LOOK))
    print(f"\nkernel: {found['kernel'].strip()}")
    assert found["cards"] == ["lo"]
    assert len(found["classes"]) > 2
    assert not [one for one in found["classes"] if one.startswith(NETWORK_CLASS)]
    held(house)
    attached = house.look()["mediationReady"]
    print(f"attached over vsock: epoch {attached['epoch']}, {attached['detail']}")
    assert attached["target"] == f"unix:{house.seat.uds}_2048"

    house.provider.script.replace([
        Call("create_skill", {"name": "weigh", "code": SKILL.format(factor=2)}),
        Call("weigh", {"words": "walnut"}),
        Call("create_skill", {"name": "weigh", "code": SKILL.format(factor=3)}),
        Call("weigh", {"words": "walnut"}),
        Say("It weighs 18 grams."),
    ])  # fmt: skip
    assert house.submit("job", "How much does a walnut weigh?").status_code == 202
    record = house.ended("job")
    print(f"result: {record['status']}, {record['result']['status']}")
    assert (record["status"], record["attempts"], record["result"]["status"]) == ("resulted", 1, "completed"), record
    assert record["result"]["content"] == "It weighs 18 grams."
    answers = [answer.replace(" ", "") for answer in house.told()]
    assert ('"grams":12' in answers[1], '"grams":18' in answers[3]) == (True, True), answers
    again = house.submit("job", "How much does a walnut weigh?")
    assert (again.status_code, again.json(), house.recorded("job")) == (200, record, 1)
    assert {call["agent_id"] for call in house.host.recent()} == {"guest"}

    [session] = house.get("/sessions")[1]["sessions"]
    before = house.get(f"/sessions/{session['id']}/messages")
    assert (before[0], "It weighs 18 grams." in json.dumps(before[1])) == (200, True)
    assert KEY not in house.console()

    began = time.monotonic()
    monitor = house.monitor
    assert house.stop()["state"] == "stopped"
    print(f"power-off: {time.monotonic() - began:.2f} s")
    assert not psutil.pid_exists(monitor)
    assert "the runtime ended with exit code 0" in house.console()

    house.start()
    assert house.get(f"/sessions/{session['id']}/messages") == before
    assert "weigh" in house.get("/capabilities")[1]["tools"]


def test_a_monitor_that_is_killed_in_the_middle_costs_no_result(house: House) -> None:
    house.start()
    house.provider.clear()
    step = Call("bash", {"command": "echo once >> steps; sync"})  # a killed machine is a power cut
    house.provider.script.replace([step, Hang(), Say("It is done.")])
    assert house.submit("killed", "Do it once.").status_code == 202
    house.provider.wait_for(2, 60)  # the step is over, the next one has begun
    first = house.monitor
    os.kill(first, signal.SIGKILL)
    record = house.ended("killed")
    house.provider.release()
    assert (record["status"], record["attempts"], record["result"]["status"]) == ("resulted", 1, "completed"), record
    assert record["result"]["content"] == "It is done."
    assert (house.submit("killed", "Do it once.").json(), house.recorded("killed")) == (record, 1)
    assert house.monitor != first
    assert "workspace_restarted" in house.host.process.output()
    house.until_ready()
    assert house.run("cat", "/data/workspace/steps") == "once\n"


def test_its_api_is_used_through_the_host(house: House) -> None:
    house.start()
    with agent(house.host, house.name) as guest:
        use_everything(guest, house.provider, house.name)
    house.stop()
    check_quarantine_cuts_streams(house.host, house.provider, house.name)


def test_quarantine_cuts_all_ways_and_nothing_is_delivered_afterwards(house: House) -> None:
    house.start()
    house.provider.clear()
    house.provider.script.replace([Hang()], otherwise=Say("never asked for"))
    assert house.submit("held", "Take your time.").status_code == 202
    house.provider.wait_for(1, 60)
    assert house.sockets() >= DOORS
    inside = connected(house.seat.uds, 8400)
    began = time.monotonic()
    reply = house.operator.post("/workspaces/guest/quarantine", json={"reason": "it is odd"})
    print(f"\nquarantine: {time.monotonic() - began:.2f} s")
    assert (reply.status_code, reply.json()["state"]) == (200, "stopped"), reply.text
    assert reply.json()["mediationReady"]["code"] == "quarantined"
    assert inside.recv(1) == b""
    inside.close()
    assert house.sockets() == set()
    assert MONITOR not in house.processes()

    record = house.record("held")
    assert (record["status"], record["result"], record["error"]) == ("dead", None, "quarantined: it is odd")
    kinds = [entry["type"] for entry in house.audit()]
    assert "quarantined" in kinds
    house.provider.release()
    assert house.submit("later", "Hello?").status_code == 202
    refused = house.operator.post("/workspaces/guest/start")
    assert (refused.status_code, refused.json()["code"]) == (409, "quarantined")
    time.sleep(3)  # nothing is to come, and nobody says when
    assert house.record("later")["status"] == "queued"
    assert len(house.provider.completions) == 1
    since = last(house, "quarantined")
    assert [entry for entry in house.audit() if entry["direction"] != "host" and entry["id"] > since] == []

    assert house.operator.post("/workspaces/guest/unquarantine").status_code == 200
    assert house.sockets() == {"v.sock_2048"}
    assert house.record("later")["status"] == "queued"
    house.start()
    assert house.ended("later")["result"]["content"] == "never asked for"
    house.stop()
    assert eventually(lambda: MONITOR not in house.processes(), "the machine is gone")


def held(house: House) -> None:
    """Its processes are nobody else on this machine, and hold none of the host's files but those they were given."""
    if os.geteuid() != 0:
        return
    ours = [pid for pids in house.processes().values() for pid in pids]
    users = {psutil.Process(pid).uids().effective for pid in ours}
    assert len(ours) == 2
    assert len(users) == 1
    assert min(users) >= 0x7000_0000
    for pid in ours:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert (int(status["CapEff"], 16), status["Groups"].split()) == (0, []), status


def last(house: House, kind: str) -> int:
    return max(entry["id"] for entry in house.audit() if entry["type"] == kind)
