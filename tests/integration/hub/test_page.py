"""The page of the hub, run from top to bottom."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import agent_client.hub

PAGE = Path(__file__).parents[3] / "docs/reference/hub.md"
SHOWN = re.findall(
    r"\w+",
    """
    register unregister close read_wal can_send default_view_policy list_agents is_connected
    agent agent_id passport resume rule open send_envelope wait_for_session_event on_envelope read_log attach_plugin
    send audience info knobs causation_id
    EV_TEXT EV_HANDOFF EV_SESSION_INVITE EV_SESSION_INVITE_REJECT default_handler accept_invitation
    read_wal_until resolve_view_policy stamp_dependencies SESSION_DEP AGENT_CLIENT_DEP HUB_DEP
    TaskMirror attach detach observe update checkpoint read_checkpoint cancel
    LocalLink LocalLinkClient WebSocketLink send_frame frames encode_frame decode_frame
    max_pending InboxFull retry_after
    """,
)
"""What a program calls, imports or names. `answer` and `wait_ended` are for programs of a rarer kind."""
FRAMES = re.findall(r"\w+", "Hello Welcome Send Receipt Notify Accept Error Ping Pong Subscribe Unsubscribe")


def examples() -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text("utf-8"))


def test_the_examples_show_the_whole_interface() -> None:
    frames = {f"{name}Frame" for name in FRAMES}
    assert frames | set(SHOWN) <= set(re.findall(r"\w+", "\n".join(examples())))


def test_the_frames_that_a_link_of_ones_own_carries_are_public() -> None:
    assert {f"{name}Frame" for name in FRAMES} <= set(agent_client.hub.__all__)


async def test_the_examples_of_the_page_run_in_their_order() -> None:
    names: dict[str, Any] = {}
    for example in examples():
        code = compile(example, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, names)  # noqa: S307
        if result is not None:
            await result
