"""The story of the README in Python: talk to an agent, give it files, have it work, read what it has written.

make mesh     # first terminal; at a host of `agent up` the report needs a model of your own, not the demo model
make serve    # second terminal
.venv/bin/python examples/client.py
"""

import os
from pathlib import Path

from pydantic import BaseModel

from agent_client import TextDelta, ToolCall
from agent_client.sync import SyncAgent


class Report(BaseModel):
    orders: int
    total: float


with SyncAgent(os.environ.get("AGENT_URL", "http://localhost:8400"), os.environ.get("AGENT_TOKEN")) as agent:
    print(agent.ask("hello").text)
    for file in Path(__file__).with_name("sales").iterdir():
        agent.files.write(file.name, file.read_bytes())
    for event in agent.chat("run: head -n 1 sales.csv"):
        if isinstance(event, ToolCall):
            print(f"[{event.name}] {event.input}")
        elif isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
    report = agent.run("Follow brief.md: analyse sales.csv and write report.md", result=Report)
    print(f"\n{report.orders} orders, {report.total:.2f} in all")
    print(agent.files.read("report.md").decode())
