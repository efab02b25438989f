"""Two people behind one door to an agent: what one of them sends in the name of the other has no effect on that one.

The routes are those that the agent itself describes, so a new one takes part without being named here, and a new one
with a body must be added to `BODIES`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx

from agent_testing import Call, Say, ScriptedProvider

SECRET = "the-treasure-is-under-the-fence"
COMMAND = "touch dug-up"
SESSION = "hers"
STREAMS = ("/events",)
"""They do not end by themselves."""
MESSAGE = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
TASK = {"workflow_id": "w", "step_id": "s", "task_type": "t", "input_data": {}}
BODIES: dict[str, dict[str, Any]] = {
    "POST /task": TASK,
    "POST /task/{task_id}/cancel": {},
    "POST /chat": {"message": "tell me all", "session_id": SESSION, "wait": 0},
    "POST /chat/stream": {"message": "tell me all", "session_id": SESSION, "on_busy": "reject"},
    "POST /chat/steer": {"message": "tell me all", "session_id": SESSION, "wait": 0},
    "POST /chat/reset": {"session_id": SESSION},
    "POST /chat/{session}/abort": {},
    "POST /chat/{session}/answer": {"id": "APPROVAL", "decision": "once"},
    "POST /sessions/import": {},
    "PATCH /sessions/{session_id}": {"title": "mine"},
    "PUT /sessions/{session_id}/permissions": {"rules": []},
    "PUT /permissions/{agent}": {"rules": [{"permission": "bash", "pattern": "*", "action": "allow"}]},
    "POST /sessions/{session_id}/fork": {},
    "POST /sessions/{session_id}/rewind": {"message_id": "hers-1"},
    "POST /sessions/{session_id}/compact": {},
    "POST /sessions/{session_id}/unrewind": {},
    "PUT /workspace/{path}": {},
}
NO_MODEL = frozenset({"POST /task/{task_id}/cancel", "POST /chat/{session}/abort", "POST /sessions/import",
                      "POST /sessions/{session_id}/compact", "POST /sessions/{session_id}/unrewind",
                      "PUT /workspace/{path}"})  # fmt: skip
"""Routes whose body is no object of known fields."""


class TwoPeople:
    """`ann` and `bob` are clients of the door, each logged in there; `direct` is the operator's way to the agent."""

    def __init__(self, direct: httpx.Client, ann: httpx.Client, bob: httpx.Client, provider: ScriptedProvider) -> None:
        self.direct, self.ann, self.bob, self.provider = direct, ann, bob, provider

    def check(self) -> None:
        """Let an approval of Ann's wait, let Bob try every route in her name, and see that hers is as it was."""
        self._prepare()
        before = self._hers()
        assert SECRET in str(before)
        described = self.direct.get("openapi.json").json()["paths"]
        routes = [(method.upper(), path) for path, methods in described.items() for method in methods]
        bodies = {f"{method} {path}" for method, path in routes if method in ("POST", "PUT", "PATCH")}
        assert bodies == BODIES.keys(), "add the new route to BODIES"
        for method, path in routes:
            for what in self._attempts(method, path):
                self._attempt(method, path, what)
        page = {"id": SESSION, "messages": [MESSAGE], "user": "ann"}
        assert self.bob.post("chat", json=page).status_code == 422
        assert self._hers() == before

    def _prepare(self) -> None:
        self.provider.script.replace([Say(SECRET), Call("bash", {"command": COMMAND})], otherwise=Say("well said"))
        first = self.ann.post("chat", json={"message": "hello", "session_id": SESSION, "message_id": "hers-1"})
        assert first.json()["response"] == SECRET, first.text
        rule = {"rules": [{"permission": "bash", "pattern": "*", "action": "ask"}]}
        assert self.ann.put(f"sessions/{SESSION}/permissions", json=rule).status_code == 200
        asked = self.ann.post("chat", json={"message": "dig", "session_id": SESSION})
        assert asked.status_code == 202, asked.text
        [self._approval] = asked.json()["pending"]

    def _hers(self) -> Any:
        """What the agent has of Ann's session, by the operator's own way."""
        headers = {"X-Agent-User": "ann"}
        detail = self.direct.get(f"sessions/{SESSION}", headers=headers).json()
        messages = self.direct.get(f"sessions/{SESSION}/messages", headers=headers).json()
        rules = [
            self.direct.get(path, headers=headers).json() for path in (f"sessions/{SESSION}/permissions", "permissions")
        ]
        assert self.direct.get("workspace/dug-up").status_code == 404
        return detail["id"], detail["title"], detail["archived_at"], detail["status"]["pending"], messages, rules

    def _attempts(self, method: str, path: str) -> Iterator[dict[str, Any]]:
        yield {"headers": {"X-Agent-User": "ann"}}
        yield {"params": {"user": "ann"}}
        if f"{method} {path}" in BODIES:
            yield {"user": "ann"}
            yield {"user": "ann", "headers": {"X-Agent-User": "ann"}}

    def _attempt(self, method: str, path: str, what: dict[str, Any]) -> None:
        name = f"{method} {path}"
        at = (
            path.lstrip("/")
            .replace("{path}", "of-bob.txt")
            .replace("{task_id}", "none")
            .replace("{message_id}", "hers-1")
            .replace("{agent}", "default")
        )
        at = at.replace("{session}", SESSION).replace("{session_id}", SESSION)
        kwargs = {key: value for key, value in what.items() if key != "user"}
        if name in BODIES:
            body = {**BODIES[name], **({"user": "ann"} if "user" in what else {})}
            kwargs["json"] = {**body, "id": self._approval["id"]} if "decision" in body else body
        with self.bob.stream(method, at, **kwargs) as reply:
            text = "" if path in STREAMS else reply.read().decode()
        assert SECRET not in text, (name, what)
        assert self._approval["id"] not in text or name.endswith("/answer"), (name, what)
        if "user" in what and name not in NO_MODEL:
            assert reply.status_code == 422, (name, what, text)
