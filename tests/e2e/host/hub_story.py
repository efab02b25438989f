"""Three agents hold a discussion and a workflow over a hub, watched by `agent hub tail`, whatever runs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from agent_testing import Call, LiveProcess, Recorded, Say
from agent_testing.provider import ProviderThread
from tests.integration.host.live import OPERATOR, PATIENCE, Host

from ..live import fresh
from .hub_world import HubRuntime


@dataclass(frozen=True)
class HubStory:
    """Ann opens a session with two others, whose models have a name each, and closes it."""

    host: Host
    ann: HubRuntime
    others: Mapping[str, ProviderThread]
    patience: float = PATIENCE

    def discuss(self) -> None:
        """The turn goes round twice, and each is shown what came before its turn."""
        (bob, model), (eve, last_model) = self.others.items()
        # Ann's last word is left unsaid, so that the discussion rests.
        self.ann.provider.script.replace(lambda request: self._discuss(str(request.messages[1:])))
        model.script.replace([Say("two"), Say("five")])
        last_model.script.replace([Say("three"), Say("six")])
        session_id = self._open()
        said = self._watch(session_id, "six")
        assert [(who, text) for who, _, text in said] == [
            ("ann", "one"), (bob, "two"), (eve, "three"), ("ann", "four"), (bob, "five"), (eve, "six"),
        ]  # fmt: skip
        seen = str(last_model.completions[-2].messages[-1]["content"])
        assert seen.index('source="ann">\none') < seen.index(f'source="{bob}">\ntwo'), "what came before is shown"
        self._close(session_id)

    def _discuss(self, seen: str) -> Call | Say:
        """A model that opens a discussion, speaks when two and three were said, and then is silent."""
        if "discussion hs_" not in seen:
            return Say("It has begun.") if "'role': 'tool'" in seen else self._begin("discussion", "one")
        return Say("SILENT") if "six" in seen else Say("four")

    def hand_over(self) -> None:
        """The one who is next in turn hands over to ann, and she to the last."""
        (bob, model), (eve, last_model) = self.others.items()
        model.script.replace([Call("say", {"text": "back to you", "hand_over_to": "ann"}), Say("handed over")])
        last_model.script.replace([Say("the end")])
        turns = [Call("say", {"text": f"{eve}, please", "hand_over_to": eve}), *[Say("SILENT")] * 2]
        self.ann.provider.script.replace(lambda request: self._hand_over(str(request.messages[1:]), turns))
        session_id = self._open()
        assert self._watch(session_id, "the end") == [
            ("ann", "ag2.msg.text", "start"),
            (bob, "ag2.handoff", "back to you"),
            ("ann", "ag2.handoff", f"{eve}, please"),
            (eve, "ag2.msg.text", "the end"),
        ]
        self._close(session_id)

    def _hand_over(self, seen: str, turns: list[Call | Say]) -> Call | Say:
        """A model that opens a workflow, and then takes its turns in it."""
        if "workflow hs_" not in seen:
            return Say("It has begun.") if "'role': 'tool'" in seen else self._begin("workflow", "start")
        return turns.pop(0)

    # ---------------------------------------------------------------- sessions

    def _begin(self, kind: str, text: str) -> Call:
        return Call("sessions", {"action": "open", "type": kind, "agents": list(self.others), "text": text})

    def _open(self) -> str:
        """Have ann open a session, as her script says, and return the session's id."""
        reply = self.ann.chat("Begin.", session_id=fresh("s"))
        assert reply.status_code == 200, reply.text
        (output,) = reply.json()["tool_outputs"]
        return output["output"]["data"]["session"]

    def _watch(self, session_id: str, last: str) -> list[tuple[str, str, str]]:
        """Sender, event type and text of the turns that `agent hub tail` prints up to a text."""
        command = [sys.executable, "-m", "agent_client", "hub", "tail", session_id, "--json"]
        env = {"AGENT_URL": self.host.url, "AGENT_TOKEN": OPERATOR}
        agents = self.host.operator.get("/hub/agents").json()["agents"]
        names = {one["agent_id"]: one["passport"]["name"] for one in agents}
        with LiveProcess(command, env) as tail:
            tail.wait_for_output(f'"text": ?"{last}"', self.patience)
            lines = [json.loads(line) for line in tail.output().splitlines() if line.startswith("{")]
        said = [one for one in lines if one["event_data"].get("text")]
        return [(names[one["sender_id"]], one["event_type"], one["event_data"]["text"]) for one in said]

    def _close(self, session_id: str) -> None:
        """Have ann close a session, so that nothing of it comes to anybody later."""
        close = Call("sessions", {"action": "close", "session": session_id})
        self.ann.provider.script.replace(lambda request: close if _asks(request, "Close it.") else Say("SILENT"))
        reply = self.ann.chat("Close it.", session_id=fresh("s"))
        assert [one["output"]["data"] for one in reply.json()["tool_outputs"]] == [{"closed": True}], reply.text


def _asks(request: Recorded, text: str) -> bool:
    """Whether a person has said this and nothing was done about it yet."""
    return request.messages[-1]["role"] == "user" and text in request.last_user_text
