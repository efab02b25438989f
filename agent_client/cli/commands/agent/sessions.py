"""`agent sessions`: conversations that are listed, read, rewound, branched and carried elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import CliError
from ...output import local_time, safe_json
from ...private_file import new_private_file
from ...run import Invocation, command

app = typer.Typer(help="List sessions, read and change them.", rich_markup_mode=None)
Name = Annotated[str, typer.Argument(help="The session's id or name.")]


@app.callback(invoke_without_command=True)
@app.command("list")
@command
async def sessions(
    call: Invocation,
    archived: Annotated[bool, typer.Option("--archived", help="Also those that are archived.")] = False,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only in this state: waiting, busy, ...")] = None,
) -> None:
    """List the sessions, the one that changed last first; the subcommands read and change one."""
    async with call.agent() as agent:
        found = [one async for one in agent.sessions.list(archived=archived, state=state)]  # pyright: ignore[reportArgumentType]  the server says what it knows
    if call.output.json:
        call.output.document({"sessions": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            *(one.alias or one.id, one.status.state, one.title, one.agent, one.model),
            *(one.total_tokens, local_time(one.updated_at)),
        )
        for one in found
    ]
    call.output.table(("session", "state", "title", "agent", "model", "tokens", "changed"), rows)


@app.command()
@command
async def show(
    call: Invocation,
    name: Name,
    hidden: Annotated[bool, typer.Option("--hidden", help="With the messages that a rewind has hidden.")] = False,
) -> None:
    """Print a session and its messages."""
    async with call.agent() as agent:
        session = await agent.sessions.get(name)
        messages = [one async for one in agent.sessions.messages(name, hidden=hidden)]
    if call.output.json:
        shown = {"messages": [one.model_dump(mode="json") for one in messages]}
        call.output.document(session.model_dump(mode="json") | shown)
        return
    cost = "unknown" if session.cost_usd is None else f"${session.cost_usd:.4f}"
    call.output.line(f"session {session.session_id}: {session.title or 'no title'}")
    call.output.line(f"{session.status.state}, {session.model}, {session.total_tokens} tokens, cost {cost}")
    for message in messages:
        call.output.line()
        call.output.line(f"[{message.role}] {message.id} {local_time(message.created_at)}")
        for part in message.parts:
            if text := part_text(part):
                call.output.text(f"{text}\n")


def part_text(part: dict[str, Any]) -> str:
    """Return a part of a message as text: what was said, or which tool was called with what. Empty: nothing to read."""
    kind = str(part.get("type", ""))
    if kind in ("text", "reasoning"):
        return ("(thinks) " if kind == "reasoning" else "") + str(part.get("text", ""))
    if "state" not in part:
        return "" if kind == "step-start" or kind.startswith("data-") else f"({kind})"
    name = str(part.get("toolName") or kind.removeprefix("tool-"))
    failed = f": {part.get('errorText') or 'denied'}" if part["state"] in ("output-error", "output-denied") else ""
    return f"({name} {safe_json(part.get('input'))}{failed})"


@app.command()
@command
async def rewind(
    call: Invocation, name: Name, message: Annotated[str, typer.Argument(help="The id of a message of the user.")]
) -> None:
    """Hide a message of the user and all later ones."""
    async with call.agent() as agent:
        reply = await agent.sessions.rewind(name, message)
    _answer(call, reply.model_dump(mode="json"), f"{reply.hidden} messages are hidden; `unrewind` takes that back")


@app.command()
@command
async def unrewind(call: Invocation, name: Name) -> None:
    """Take back the latest rewind."""
    async with call.agent() as agent:
        reply = await agent.sessions.unrewind(name)
    _answer(call, reply.model_dump(mode="json"), f"{reply.restored} messages are back")


@app.command()
@command
async def fork(
    call: Invocation,
    name: Name,
    message: Annotated[str | None, typer.Argument(help="The last message to copy; all without it.")] = None,
    title: Annotated[str | None, typer.Option(help="The new session's title.")] = None,
) -> None:
    """Start a session with the messages of another, and print its id."""
    async with call.agent() as agent:
        made = await agent.sessions.fork(name, message, title=title)
    _answer(call, made.model_dump(mode="json"), made.session_id)


@app.command()
@command
async def compact(call: Invocation, name: Name) -> None:
    """Have the conversation summarized; the model is sent the summary from then on."""
    async with call.agent() as agent:
        reply = await agent.sessions.compact(name)
    _answer(call, reply.model_dump(mode="json"), "done")


@app.command()
@command
async def archive(call: Invocation, name: Name) -> None:
    """Stop what runs in a session, and archive it."""
    async with call.agent() as agent:
        archived = await agent.sessions.archive(name)
    _answer(call, archived.model_dump(mode="json"), "archived")


@app.command()
@command
async def export(
    call: Invocation,
    name: Name,
    file: Annotated[Path | None, typer.Option("-o", "--output", help="A new file; stdout without it.")] = None,
) -> None:
    """Write all of a session as JSON Lines, for `import`."""
    async with call.agent() as agent:
        data = await agent.sessions.export(name)
    if file is None and call.output.terminal:
        call.output.text(data.decode(errors="replace"))
        return
    if file is None:
        sys.stdout.buffer.write(data)
        return
    with new_private_file(file) as target:
        target.write(data)
    _answer(call, {"file": str(file), "bytes": len(data)}, f"{len(data)} bytes in {file}")


@app.command("import")
@command
async def import_(call: Invocation, file: Annotated[Path, typer.Argument(help="An export.")]) -> None:
    """Store an export as a session, and print its id."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CliError(f"{file}: cannot be read: {error.strerror}") from error
    async with call.agent() as agent:
        made = await agent.sessions.import_(data)
    _answer(call, made.model_dump(mode="json"), made.session_id)


def _answer(call: Invocation, document: dict[str, Any], line: str) -> None:
    if call.output.json:
        call.output.document(document)
    else:
        call.output.line(line)
