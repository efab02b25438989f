"""`agent topics`: the messages that the agents of a team publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...output import local_time, safe_json
from ...run import Invocation, command
from .options import TeamOption, Value, json_value

if TYPE_CHECKING:
    from agent_common.protocol import TopicMessage

app = typer.Typer(help="Publish to a team's topics, and read them.", rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]


@app.command()
@command
async def publish(
    call: Invocation,
    topic: Name,
    data: Value,
    *,
    text: Annotated[bool, typer.Option("--text", help="The message is a text, as it stands.")] = False,
    id: Annotated[str | None, typer.Option(metavar="ID", help="The same id is published once.")] = None,
    team: TeamOption = None,
) -> None:
    """Publish a message, and print its number in the topic."""
    given = json_value(data, text)
    async with call.mesh() as mesh:
        made = await mesh.team(team).topics.publish(topic, given, id=id)
    if call.output.json:
        call.output.document(made.model_dump(mode="json"))
    else:
        call.output.line(f"message {made.seq} of {topic}")


@app.command()
@command
async def read(
    call: Invocation,
    topic: Name,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Only messages after this number.")] = 0,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what comes.")] = False,
    team: TeamOption = None,
) -> None:
    """Print the messages of a topic, the oldest first; with --json a line of JSON for each."""
    async with call.mesh() as mesh:
        topics = mesh.team(team).topics
        if not follow:
            async for message in topics.read(topic, after=after):
                _print(call, message)
            return
        async for event in topics.follow(topic, after=after):
            if event.content is not None:
                _print(call, event.content)
            else:
                call.output.note("older messages are no longer kept")


def _print(call: Invocation, message: TopicMessage) -> None:
    if call.output.json:
        call.output.record(message.model_dump(mode="json"))
    else:
        call.output.line(f"{local_time(message.at)} {message.seq} {message.by}: {safe_json(message.data)}")
