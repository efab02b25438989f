"""The reply to a message whose turn failed."""

from __future__ import annotations

import json
from functools import partial

from agent_common.protocol import Usage
from agent_runtime.api.routes.chat import _finished_response
from agent_runtime.loop import reply_of


def test_a_failure_is_told_without_the_parts_that_cannot_be_sent() -> None:
    names = {"session_id": "s", "message_id": "m"}
    outcome = {"status": "failed", "error_code": "internal_error", "finish_reason": "error", "error": "why"}
    for part in (
        {"type": "text", "text": "\ud800", "state": "done"},
        {"type": "tool-read", "toolCallId": "c", "state": "output-error", "input": {"a": "\ud800"}, "errorText": "no"},
    ):
        answer = _finished_response(partial(reply_of, names), [part], Usage(), outcome, "/chat")
        assert answer.status_code == 500
        told = json.loads(bytes(answer.body))
        assert (told["code"], told["detail"], told["message_id"]) == ("internal_error", "why", "m")
