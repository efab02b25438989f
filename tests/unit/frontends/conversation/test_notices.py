"""Notices of what waits and fails, and their way to the operator."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from contextlib import suppress
from typing import Any

import pytest

from agent_client import AgentEvent
from frontends.conversation.notices import OperatorNotices
from frontends.conversation.notices.notices import notice_of, summary_of


def event(type: str, **data: Any) -> AgentEvent:
    return AgentEvent("1", type, {"type": type, "workspace": "ada", "user": "telegram:1", **data})


def test_failures_are_noticed_and_successes_are_not() -> None:
    failed = event("turn-finished", reason="error", session_id="s", message_id="m")
    assert notice_of(failed) == "⚠️ A turn of ada has failed, in the conversation s."
    assert summary_of(failed) == "A turn has failed: agent ada, user telegram:1"
    task = event("turn-finished", reason="error", task_id="t_1")
    assert notice_of(task) == "⚠️ The task t\\_1 of ada has failed."
    dead = event("work-changed", status="dead", request_id="w", error="worn out")
    assert notice_of(dead) == "⚠️ The work w of ada has failed: worn out"
    for other in (event("turn-finished", reason="finish"), event("work-changed", status="resulted"), event("x")):
        assert notice_of(other) is None
        assert summary_of(other) is None


def test_what_an_agent_says_is_shown_as_it_is() -> None:
    forged = event("notice", text="Done.\n**Bot:** press [here](http://evil) @everyone\u202e", session_id="s")
    shown = notice_of(forged)
    assert shown is not None
    assert shown.startswith("🔔 ada: Done\\. \\*\\*Bot\\:\\*\\* press \\[here\\]\\(http\\:\\/\\/evil\\) \\@everyone")
    assert "\n" not in shown
    assert "\u202e" not in shown
    assert summary_of(forged) is None
    assert len(notice_of(event("notice", text="x" * 5000)) or "") < 1100


def test_what_waits_is_noticed_without_its_content() -> None:
    approval = event("approval-requested", kind="approval", tool="bash", input={"command": "secret"})
    assert notice_of(approval) is None
    assert summary_of(approval) == "An approval of bash waits: agent ada, user telegram:1"
    assert summary_of(event("approval-requested", kind="question")) == "A question waits: agent ada, user telegram:1"


@pytest.mark.parametrize("kind", ["budget-warning", "budget-exhausted"])
def test_the_operator_hears_of_budgets(kind: str) -> None:
    data = {"type": kind, "scope": "team:a\nb", "limit": "daily_usd", "percent": 80, "most": 20.0, "spent": 16.25}
    used = AgentEvent("1", kind, data)
    assert summary_of(used) == "80 % of a budget are used: team:a b, daily_usd, 16.25 of 20.0"
    assert notice_of(used) is None
    own = AgentEvent("1", kind, {**data, "scope": "agent:ada/help*er", "workspace": "ada"})
    words = {
        "budget-warning": "⚠️ 80 % of the budget of ada\\/help\\*er are used: daily\\_usd, 16\\.25 of 20\\.0.",
        "budget-exhausted": "⛔ The budget of ada\\/help\\*er is used up: daily\\_usd, 16\\.25 of 20\\.0.",
    }
    assert notice_of(own) == words[kind]
    assert (summary_of(own) or "").startswith("80 % of a budget are used: agent:ada/help*er, daily_usd")


async def test_a_notice_reaches_where_the_operator_wants() -> None:
    got: list[dict] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        notices = OperatorNotices([f"json://127.0.0.1:{server.server_port}/"])
        task = asyncio.create_task(notices.run())
        notices.add("An approval waits")
        notices.add("A turn has failed")
        async with asyncio.timeout(60):
            while not got:
                await asyncio.sleep(0.01)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        server.shutdown()
    assert (got[0]["title"], got[0]["message"]) == ("Agents", "An approval waits\nA turn has failed")


@pytest.mark.parametrize("count", [0, 500])
def test_the_notices_that_wait_are_bounded(count: int) -> None:
    notices = OperatorNotices(["json://127.0.0.1"] if count else [])
    for number in range(count or 3):
        notices.add(str(number))
    assert len(notices._lines) == min(count, 100)
