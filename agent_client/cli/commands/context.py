"""`agent context`: the hosts and agents that a person works with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..contexts import Context, Contexts, Target, change_contexts, check_url, kind_of, load_contexts, read_token
from ..errors import UsageError
from ..run import Invocation, local_command

app = typer.Typer(help="Name hosts and agents, and choose one.", rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The context's name.")]


@app.command("list")
@local_command
async def list_(call: Invocation) -> None:
    """List the contexts; a star marks the current one."""
    known = load_contexts()
    if call.output.json:
        call.output.document({"current": known.current, "contexts": [_shown(one) for one in known.contexts]})
        return
    rows = [
        ("*" if one.name == known.current else "", one.name, one.kind, one.url, one.workspace, one.user, _token(one))
        for one in known.contexts
    ]
    call.output.table(("", "context", "kind", "url", "workspace", "user", "token"), rows)


def _token(context: Context) -> str:
    return context.token_file or ("in the file of contexts" if context.token else "none")


def _shown(context: Context) -> dict[str, Any]:
    names = ("name", "url", "kind", "token_file", "workspace", "user")
    return {name: getattr(context, name) for name in names} | {"has_token": context.token is not None}


@app.command()
@local_command
async def use(call: Invocation, name: Name) -> None:
    """Make a context the current one."""
    _answer(call, change_contexts(lambda known: known.using(name)))


@app.command()
@local_command
async def add(
    call: Invocation,
    name: Name,
    url: Annotated[str, typer.Argument(help="Of a host, or of an agent itself.")],
    *,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A file that holds its token.")] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read the token from stdin, and keep it among the contexts.")
    ] = False,
    kind: Annotated[
        Literal["host", "agent"] | None, typer.Option(help="What is there; without it the URL is asked.")
    ] = None,
    workspace: Annotated[str | None, typer.Option("--workspace", "-w", help="The workspace meant without -w.")] = None,
    user: Annotated[str | None, typer.Option(help="For whom you speak, as an operator.")] = None,
    current: Annotated[bool, typer.Option("--use", help="Make it the current one.")] = False,
) -> None:
    """Add a context, or replace the one of that name. The first becomes the current one."""
    check_url(url)
    if token_file and token_stdin:
        raise UsageError("--token-file and --token-stdin give two tokens", "keep one of them")
    token = _token_of_stdin() if token_stdin else read_token(str(token_file)) if token_file else None
    if kind is None:
        kind = await kind_of(Target(url, token))
    kept = str(token_file.expanduser().absolute()) if token_file else None
    context = Context(name, url.rstrip("/"), kind, token if token_stdin else None, kept, workspace, user)
    _answer(call, change_contexts(lambda known: known.with_context(context, use=current)))


def _token_of_stdin() -> str:
    from getpass import getpass

    token = (getpass("token: ") if sys.stdin.isatty() else sys.stdin.readline(10_000)).strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError("stdin holds no token", "write one line, the token")
    return token


@app.command()
@local_command
async def remove(call: Invocation, name: Name) -> None:
    """Remove a context. A token's file stays."""
    known = change_contexts(lambda known: known.without(name))
    if not call.output.json:
        call.output.line(f"{name} is removed")
    _answer(call, known)


def _answer(call: Invocation, known: Contexts) -> None:
    if call.output.json:
        call.output.document({"current": known.current, "contexts": [_shown(one) for one in known.contexts]})
    else:
        call.output.line(f"current context: {known.current}" if known.current else "there is no current context")
