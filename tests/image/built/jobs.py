"""The work that the image is given, and how it ends."""

from __future__ import annotations

import json
import time
from typing import Any

from agent_testing import ScriptedProvider
from tests.integration.host.live import Host

from .engine import PATIENCE

OPEN = ("queued", "dispatched", "accepted")
SKILL = '''
@skill
def weigh(words: str) -> dict:
    """How much some words weigh."""
    return {{"grams": len(words) * {factor}}}
'''
TALK = """
import json, os, urllib.request as r
token = open(os.environ["AGENT_TOKEN_FILE"]).read().strip()
def get(path):
    asked = r.Request("http://127.0.0.1:8400" + path, headers={"Authorization": "Bearer " + token})
    return json.load(r.urlopen(asked))
names = [one["id"] for one in get("/sessions")["sessions"]]
print(json.dumps({name: get(f"/sessions/{name}/messages")["messages"] for name in names}))
"""
"""Run inside: everything that was said, by session."""


def weigh(factor: int) -> dict[str, str]:
    """What `create_skill` takes: a skill by which a letter has so many grams."""
    return {"name": "weigh", "code": SKILL.format(factor=factor)}


def until_ready(host: Host, workspace: str) -> None:
    """Until it is attached, its constraints are acknowledged and it can be given work."""
    deadline = time.monotonic() + PATIENCE
    while not (ready := host.operator.get(f"/workspaces/{workspace}").json()["mediationReady"])["ready"]:
        assert time.monotonic() < deadline, ready
        time.sleep(0.1)


def hand_in(host: Host, workspace: str, request_id: str, content: str) -> tuple[int, dict[str, Any]]:
    """The listener's answer; the same again is answered with the same record."""
    request = {"request_id": request_id, "content": content}
    reply = host.operator.post("/work", json={"workspace": workspace, "request": request})
    return reply.status_code, reply.json()


def ended(host: Host, request_id: str) -> dict[str, Any]:
    """The record of work that is over."""
    deadline = time.monotonic() + PATIENCE
    while (record := host.operator.get(f"/work/{request_id}").json())["status"] in OPEN:
        assert time.monotonic() < deadline, record
        time.sleep(0.1)
    return record


def completed(host: Host, workspace: str, request_id: str, content: str) -> str:
    """The answer to new work that ends well, with one result on record."""
    status, record = hand_in(host, workspace, request_id, content)
    assert status == 202, record
    return the_one_answer(host, request_id)


def the_one_answer(host: Host, request_id: str) -> str:
    record = ended(host, request_id)
    assert (record["status"], record["result"]["status"]) == ("resulted", "completed"), record
    entries = host.operator.get("/audit", params={"request_id": request_id}).json()["entries"]
    assert [entry["type"] for entry in entries].count("resulted") == 1, entries
    return record["result"]["content"]


def told(provider: ScriptedProvider) -> list[str]:
    """What the tools answered, in the last call of the model, without spaces."""
    messages = provider.completions[-1].messages
    return [json.dumps(one["content"]).replace(" ", "").replace("\\", "") for one in messages if one["role"] == "tool"]
