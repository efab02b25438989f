"""How a command runs: its common options, its event loop, its end.

    @command
    async def ps(call: Invocation, all: Annotated[bool, typer.Option("--all")] = False) -> None:
        async with call.mesh() as mesh: ...

It gets the options of every command in `call`. What it returns is the exit code, None means done. Ctrl-C and SIGTERM
cancel it, so it can stop at the server what it has begun. As the callback of a group it runs when no subcommand is
named, and passes the options on to those.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from .contexts import Choice, Target, open_agent, open_mesh, resolve
from .errors import ABORTED, DONE, FAILED, PIPE_CLOSED, USAGE, CliError, explain
from .output import Output, print_error

if TYPE_CHECKING:
    from .. import Agent, Mesh

P = ParamSpec("P")
Body = Callable[Concatenate["Invocation", P], Coroutine[Any, Any, int | None]]

ContextOption = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The context to use.")]
UrlOption = Annotated[str | None, typer.Option("--url", metavar="URL", help="A host or an agent, without a context.")]
TokenFileOption = Annotated[str | None, typer.Option("--token-file", metavar="FILE", help="The file with its token.")]
WorkspaceOption = Annotated[
    str | None, typer.Option("--workspace", "-w", metavar="ID", help="The agent's workspace, behind a host.")
]
UserOption = Annotated[
    str | None, typer.Option("--user", metavar="USER", help="The person for whom you speak, if the token has several.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON.")]
COMMON: dict[str, Any] = {
    "context": ContextOption,
    "url": UrlOption,
    "token_file": TokenFileOption,
    "workspace": WorkspaceOption,
    "user": UserOption,
}


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a command."""

    output: Output = field(default_factory=Output)
    choice: Choice = field(default_factory=Choice)

    def target(self) -> Target:
        """Return what the command talks to. Raises CliError."""
        return resolve(self.choice)

    def whole(self) -> Target:
        """Return the target without the workspace that is meant without `-w`, for a command that concerns all. Raises
        CliError."""
        return replace(self.target(), workspace=self.choice.workspace)

    def agent(self) -> AbstractAsyncContextManager[Agent]:
        """Open a client of the agent, and say which it is if it works in another folder. Raises CliError."""
        target = self.target()
        if target.elsewhere:
            what = f"the agent is {target.workspace}, which works in {target.elsewhere}"
            self.output.note(f"{what}; `agent up` starts one in this folder")
        return open_agent(target)

    def mesh(self) -> AbstractAsyncContextManager[Mesh]:
        """Open a client of the host. Raises CliError."""
        return open_mesh(self.target())


def command(body: Body[P]) -> Callable[..., None]:
    """Make a command of typer out of a coroutine: with the options of every command, and run by `run`."""
    return _command(body, COMMON)


def local_command(body: Body[P]) -> Callable[..., None]:
    """Make a command that talks to no server; of the common options it has `--json`."""
    return _command(body, {})


def _command(body: Body[P], common: dict[str, Any]) -> Callable[..., None]:
    @wraps(body)
    def wrapped(ctx: typer.Context, json: bool, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in common}
        call = merged(ctx.obj, Invocation(Output(json), Choice(**chosen)))
        if ctx.invoked_subcommand is not None:
            ctx.obj = _for_subcommand(ctx, call, given)
            return
        run(body(call, **given))  # pyright: ignore[reportCallIssue]  typer gives what the signature below names

    signature = inspect.signature(body, eval_str=True)
    own = list(signature.parameters.values())[1:]
    parameters = [_keyword("ctx", typer.Context), *(one.replace(kind=_KEYWORD) for one in own)]
    parameters += [_keyword(name, kind, None) for name, kind in common.items()]
    parameters.append(_keyword("json", JsonOption, False))
    wrapped.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # pyright: ignore[reportAttributeAccessIssue]  typer reads it
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def _for_subcommand(ctx: typer.Context, call: Invocation, given: dict[str, Any]) -> Invocation:
    """Return what a subcommand is given. The group's own options would have no effect, so they are refused."""
    if any(value not in (None, False) for value in given.values()):
        print_error(f"an option before `{ctx.invoked_subcommand}` belongs to `{ctx.command_path}` alone; leave it out")
        raise typer.Exit(USAGE)
    return call


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, _KEYWORD, annotation=annotation, default=default)


def merged(before: Invocation | None, call: Invocation) -> Invocation:
    """Return the call with what was said before the command's name where it says nothing itself: `agent -w a ps`."""
    if before is None:
        return call
    unset = [one.name for one in fields(Choice) if getattr(call.choice, one.name) is None]
    choice = replace(call.choice, **{name: getattr(before.choice, name) for name in unset})
    return Invocation(Output(call.output.json or before.output.json), choice)


def run(work: Coroutine[Any, Any, int | None]) -> None:
    """Run a command to its end and leave with its exit code."""
    raise typer.Exit(_exit_code(work))


def _exit_code(work: Coroutine[Any, Any, int | None]) -> int:
    _retry_silently()
    try:
        code = asyncio.run(_cancelled_by_sigterm(work))
        sys.stdout.flush()
    except (KeyboardInterrupt, asyncio.CancelledError):
        return ABORTED
    except BrokenPipeError:
        _discard_output()
        return PIPE_CLOSED
    except CliError as error:
        print_error(str(error), error.output)
        return error.code
    except Exception as error:
        from .. import ClientError

        if not isinstance(error, ClientError):
            raise
        print_error(explain(error))
        return FAILED
    return DONE if code is None else code


def _retry_silently() -> None:
    """Have the client's retries write no log: a person waits for the answer, and an error says it all. The log would go
    to stdout, between the JSON."""
    with suppress(ImportError):  # `agent doctor` says which package is missing
        from stamina.instrumentation import set_on_retry_hooks

        set_on_retry_hooks(())


async def _cancelled_by_sigterm(work: Coroutine[Any, Any, int | None]) -> int | None:
    if task := asyncio.current_task():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def _discard_output() -> None:
    """Have the interpreter flush what is left into nothing at its end: into the pipe would be an error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
