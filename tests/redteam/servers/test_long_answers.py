"""Answers of a model that are as long as they may be and cost the most to keep, many at a time: a guest with 512 MiB
bears them, and others have theirs meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_testing import Recorded, Say, ScriptedProvider
from tests.e2e.live import fresh, in_background
from tests.integration.host.live import PATIENCE
from tests.memory_limit import GUEST_MIB

from .guest import SmallGuest

AT_ONCE = 6
PIECES = {
    "controls": "\x01" * 65536,
    "quotes": '"' * 65536,
    "smileys": "\U0001f600" * 16384,
    "letters": "x" * 65536,
}
"""64 KiB each: six bytes of JSON, two, or one for a byte of text, or four bytes of memory for a character."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", PIECES)
def test_long_answers_at_once(kind: str, tmp_path: Path) -> None:
    def answer(request: Recorded) -> Say:
        return Say(pieces=(PIECES[kind],) * 127) if request.last_user_text == "long" else Say("short")

    with ScriptedProvider() as provider, SmallGuest(provider, tmp_path / "guest") as guest:
        provider.script.replace(answer)
        for _ in range(3):
            sent = [in_background(lambda: guest.chat("long", session_id=fresh("s"))) for _ in range(AT_ONCE)]
            assert guest.chat("hi", session_id=fresh("s")).json()["response"] == "short"
            for thread, _ in sent:
                thread.join(PATIENCE)
            statuses = sorted(answers[0].status_code for _, answers in sent)
            assert set(statuses) <= {200, 502}
            print(kind, statuses, guest.peak_mib, "MiB")
        assert guest.peak_mib < GUEST_MIB
        guest.still_works()
