"""`agent permissions`: what the user has allowed for good with an agent, and how it is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import UsageError
from ...output import local_time
from ...run import Invocation, command

if TYPE_CHECKING:
    from agent_common.protocol import AgentPermissions

app = typer.Typer(help="List what you have allowed for good, and take it back.", rich_markup_mode=None)
Name = Annotated[str, typer.Argument(help="The agent's name, as in the list.")]


@app.callback(invoke_without_command=True)
@app.command("list")
@command
async def permissions(call: Invocation) -> None:
    """List your rules for all your sessions with an agent; the subcommands take them back."""
    async with call.agent() as agent:
        found = await agent.permissions.list()
    if call.output.json:
        call.output.document({"permissions": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (one.agent, number, rule.action, rule.permission, rule.pattern, local_time(rule.added_at or 0))
        for one in found
        for number, rule in enumerate(one.rules, 1)
    ]
    columns = ("agent", "number", "action", "tool", "pattern", "since")
    call.output.table(columns, rows, empty="nothing is allowed for good")


@app.command()
@command
async def remove(call: Invocation, name: Name, number: Annotated[int, typer.Argument(help="As in the list.")]) -> None:
    """Take back one rule."""
    from agent_common.protocol import AgentRule

    async with call.agent() as agent:
        current = (await agent.permissions.get(name)).rules
        if not 1 <= number <= len(current):
            raise UsageError(f"{number}: you have {len(current)} rules for agent {name}", "see `agent permissions`")
        kept = [AgentRule.model_validate(rule.model_dump()) for at, rule in enumerate(current, 1) if at != number]
        _taken_back(call, await agent.permissions.set(name, kept))


@app.command()
@command
async def clear(call: Invocation, name: Name) -> None:
    """Take back all rules for an agent."""
    async with call.agent() as agent:
        _taken_back(call, await agent.permissions.clear(name))


def _taken_back(call: Invocation, left: AgentPermissions) -> None:
    if call.output.json:
        call.output.document(left.model_dump(mode="json"))
    else:
        call.output.line("taken back")
