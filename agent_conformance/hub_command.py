"""`python -m agent_conformance hub`: test any hub that takes links over WebSockets, as its agents."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from agent_common.errors import StartError

from .command import print_findings


def hub(
    url: Annotated[str, typer.Argument(metavar="URL", help="Of the hub, such as ws://127.0.0.1:8420/hub.")],
    *,
    token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TOKEN",
            envvar="HUB_TOKENS",
            help="An agent that the tester acts as, and its token; again: two more, of which some rules need all. In "
            "the environment there are spaces between them. Nobody else may use these agents: they are unregistered.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for a frame that must come.", min=0.5, max=600)
    ] = 10.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the hub to be there.", min=1)] = 60.0,
    only: Annotated[
        str, typer.Option(help="Rules to try, with commas between them; the first one is always tried.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Test a hub against the protocol (docs/protocols/hub.md). Exits with 1 when a rule is broken."""
    from agent_common.hub_client import HubAddress

    from .hub import HubOptions, TesterAgents
    from .run import judge_hub

    tokens = read_tokens(token or [])
    try:
        address = HubAddress.parse(url)
    except ValueError as error:
        raise StartError(str(error)) from error
    rules = [name for name in only.replace(" ", "").split(",") if name]
    agents = TesterAgents(address, tokens, HubOptions(timeout, wait))
    print_findings(asyncio.run(judge_hub(agents, rules)), as_json=as_json)


def read_tokens(given: list[str]) -> dict[str, str]:
    """Return the tokens by name. Raises StartError."""
    found: dict[str, str] = {}
    for one in given:
        name, _, token = one.partition("=")
        if not name or not token:
            raise StartError("--token: must be NAME=TOKEN, with the name of an agent and its token")
        if name in found:
            raise StartError(f"--token: {name} is given twice; each token is of another agent")
        found[name] = token
    if not found:
        raise StartError("--token: give one to three, each as NAME=TOKEN: the tester acts as these agents")
    return found
