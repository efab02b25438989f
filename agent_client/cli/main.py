"""`agent`: what people do with agents in a terminal. Each command is a module, and a line here."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .answered_by import AgentOption, AnsweredBy, ModelOption
from .chat.command import chat
from .commands import bots, context, doctor, events, pending, up
from .commands.agent import mcp, permissions, sessions, skill, tasks
from .commands.host import cost, hub, lifecycle, token, work, workspaces
from .commands.team import agents, artifacts, blackboard, topics
from .errors import UsageError
from .run import Invocation, command


class _Commands(TyperGroup):
    """The commands, with words of our own for two mistakes."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and " " in args[0]:
            ctx.fail(f"No such command {args[0]!r}; `agent -p TEXT` gives a text to the agent, `agent chat` converses.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=_Commands,
    help="Talk to agents and watch them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(up.up)
app.command()(up.down)
app.command()(chat)
app.command()(doctor.doctor)
app.command()(workspaces.ps)
app.command()(workspaces.logs)
app.command()(lifecycle.start)
app.command()(lifecycle.stop)
app.command()(lifecycle.rm)
app.command()(events.events)
app.command()(pending.pending)
app.command()(pending.approve)
app.add_typer(permissions.app, name="permissions")
app.add_typer(sessions.app, name="sessions")
app.add_typer(tasks.app, name="tasks")
app.add_typer(work.app, name="work")
app.command()(cost.cost)
app.add_typer(skill.app, name="skill")
app.add_typer(mcp.app, name="mcp")
app.add_typer(agents.app, name="agents")
app.add_typer(blackboard.app, name="blackboard")
app.add_typer(topics.app, name="topics")
app.add_typer(artifacts.app, name="artifacts")
app.add_typer(hub.app, name="hub")
app.add_typer(token.app, name="token")
app.add_typer(bots.app, name="bots")
app.add_typer(context.app, name="context")


@app.callback(invoke_without_command=True)
@command
async def root(
    call: Invocation,
    prompt: Annotated[
        str | None,
        typer.Option("-p", "--print", metavar="TEXT", help="Have one turn and print its answer; `-` reads stdin."),
    ] = None,
    *,
    session: Annotated[
        str | None, typer.Option("-s", "--session", metavar="NAME", help="With -p: the session to use.")
    ] = None,
    latest: Annotated[bool, typer.Option("-c", "--continue", help="With -p: in the session used last.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--timeout", min=0.001, metavar="SECONDS", help="With -p: stop the turn after this time."),
    ] = None,
    stream_json: Annotated[bool, typer.Option("--stream-json", help="With -p: write each event as JSON.")] = False,
    model: ModelOption = None,
    agent: AgentOption = None,
) -> int:
    """Talk to agents and watch them."""
    from .print_mode import print_mode

    if prompt is None:
        raise UsageError("no command is named", "see `agent --help`")
    if prompt in ("-h", "--help"):
        raise UsageError("-p needs a text for the agent", "see `agent --help`")
    by = AnsweredBy(model, agent)
    return await print_mode(call, prompt, by, session=session, latest=latest, seconds=seconds, stream=stream_json)


def main() -> None:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  it was closed: there is nothing to read
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  for as long as the process lives
    app(prog_name="agent")
