"""The ten lines on the page of the channel, run as they stand, with a real agent at the other end."""

from __future__ import annotations

import asyncio
import re
import socket
import textwrap
import threading
from pathlib import Path
from typing import Any

from agent_common.protocol.work import Principal, WorkRequest
from agent_host.database import open_database
from agent_host.listener import Listener, ledger_lock
from tests.e2e.conftest import Start
from tests.e2e.live import eventually

PAGE = Path(__file__).parents[3] / "docs/reference/mediation.md"


def test_the_other_end_in_ten_lines(start: Start, tmp_path: Path) -> None:
    lines = re.search(r"```python\n(async def ask.*?)```", PAGE.read_text(), re.DOTALL)
    assert lines is not None
    assert len(lines[1].splitlines()) <= 11
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = lines[1].replace("127.0.0.1:9900", f"127.0.0.1:{port}").replace("agent.key", f"{tmp_path}/agent.key")
    code = code.replace("sqlite:///work.db", f"sqlite:///{tmp_path}/work.db")
    known: dict[str, Any] = {
        "Listener": Listener,
        "ledger_lock": ledger_lock,
        "open_database": open_database,
        "Principal": Principal,
        "WorkRequest": WorkRequest,
        "Path": Path,
    }
    exec(textwrap.dedent(code), known)  # noqa: S102
    answers: list[str | None] = []
    host = threading.Thread(target=lambda: answers.append(asyncio.run(known["ask"]("say:it works"))), daemon=True)
    host.start()
    eventually((tmp_path / "agent.key").exists)
    start(AGENT_MEDIATION_URL=f"tcp://127.0.0.1:{port}", AGENT_MEDIATION_KEY_FILE=tmp_path / "agent.key")
    host.join(30)
    assert answers == ["it works"]
