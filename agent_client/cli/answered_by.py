"""The options that say what answers a message: for `agent -p` and `agent chat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The model that answers, as the host calls it.")
]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="The agent that answers.")]


@dataclass(frozen=True, slots=True)
class AnsweredBy:
    """None: the session's own."""

    model: str | None = None
    agent: str | None = None
