"""`agent agents`: the agents of a team, what they say of themselves, and messages to them."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import DONE, FAILED, LIMIT
from ...output import local_time, print_error
from ...run import Invocation, command
from .options import TeamOption

if TYPE_CHECKING:
    from agent_common.protocol import AskReply

    from ....team import TeamAgents

CANCEL_SECONDS = 5.0
"""How long the host is given to cancel what was asked."""
app = typer.Typer(help="List the agents that work together, ask them.", rich_markup_mode=None)
AgentId = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id.")]
Message = Annotated[str, typer.Argument(help="What it is to do, or to answer.")]
Key = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The same key with the same message is the same work.")
]


@app.callback(invoke_without_command=True)
@app.command("list")
@command
async def agents(
    call: Invocation,
    team: Annotated[str | None, typer.Option("--team", metavar="NAME", help="Only of this team.")] = None,
    capability: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only with this skill, tool, agent or protocol.")
    ] = None,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="Only with this text in the card.")] = None,
) -> None:
    """List the agents that have posted a card; the subcommands read one, and give one a message."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.team(team).agents.list(capability=capability, text=search)]
    if call.output.json:
        call.output.document({"agents": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            one.id,
            one.team,
            one.state,
            one.role,
            ", ".join(skill.name for skill in one.skills),
            local_time(one.updated_at),
        )
        for one in found
    ]
    call.output.table(("agent", "team", "state", "role", "skills", "card of"), rows)


@app.command()
@command
async def show(call: Invocation, agent: AgentId, team: TeamOption = None) -> None:
    """Print the card of an agent: its agents, skills, tools and protocols."""
    async with call.mesh() as mesh:
        card = await mesh.team(team).agents.get(agent)
    if call.output.json:
        call.output.document(card.model_dump(mode="json"))
        return
    call.output.line(f"agent {card.id} of the team {card.team}: {card.state}, posted {local_time(card.updated_at)}")
    call.output.line(f"name: {card.name}")
    call.output.line(f"role: {card.role}")
    for kind, known in (("agent", card.agents), ("skill", card.skills)):
        for one in known:
            call.output.line(f"{kind} {one.name}: {one.description}")
    call.output.line(f"tools: {', '.join(card.tools)}")
    call.output.line(f"protocols: {', '.join(f'{name} {version}' for name, version in card.protocols.items())}")


@app.command()
@command
async def ask(
    call: Invocation,
    agent: AgentId,
    message: Message,
    *,
    seconds: Annotated[float, typer.Option("--timeout", min=0.001, max=600, metavar="SECONDS")] = 120.0,
    key: Key = None,
    team: TeamOption = None,
) -> int:
    """Give an agent a message as work of its own, wait for its end, and print the answer. Ctrl-C cancels the work."""
    async with call.mesh() as mesh:
        reply = await _ask_or_cancel(mesh.team(team).agents, agent, message, seconds, key or token_hex(16))
    if call.output.json:
        call.output.document(reply.model_dump(mode="json"))
    elif reply.response is not None:
        call.output.answer(reply.response)
    if reply.status == "completed":
        return DONE
    print_error(f"{reply.status}: {reply.error}; `agent work show {reply.request_id}` has its record")
    return LIMIT if reply.status in ("yielded", "timeout") else FAILED


async def _ask_or_cancel(agents: TeamAgents, agent: str, message: str, seconds: float, key: str) -> AskReply:
    """Wait for the answer; if the wait ends here before, cancel the work at the host."""
    from .... import ClientError, NotFound

    try:
        return await agents.ask(agent, message, seconds=seconds, key=key)
    except asyncio.CancelledError:
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await agents.cancel(agent, key)
        except NotFound:
            pass  # the message has not come to the host, which does not take it any more
        except (ClientError, TimeoutError) as error:
            print_error(f"the work goes on: {str(error) or 'the host does not answer'}; `agent work` lists it")
        raise


@app.command("hand-off")
@command
async def hand_off(
    call: Invocation,
    agent: AgentId,
    message: Message,
    *,
    seconds: Annotated[
        float, typer.Option("--timeout", min=0.001, max=86_400, metavar="SECONDS", help="Once it has begun.")
    ] = 3600.0,
    key: Key = None,
    team: TeamOption = None,
) -> None:
    """Give an agent a message as work that is done whenever it is there, and print the id of the work."""
    async with call.mesh() as mesh:
        given = await mesh.team(team).agents.hand_off(agent, message, seconds=seconds, key=key)
    if call.output.json:
        call.output.document(given.model_dump(mode="json"))
    else:
        call.output.line(given.request_id)
