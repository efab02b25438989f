"""Which host or agent a command talks to: what its options say, then the environment, then the current context.

    async with open_agent(resolve(Choice(workspace="writer"))) as agent: ...

A token belongs to the URL beside it: that of a context goes only to the context's URL, and AGENT_TOKEN only to
AGENT_URL, or without that to the URL of `--url`. No option takes a token: every user of the machine can read it there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .context_file import Context, Contexts, Kind, change_contexts, contexts_path, load_contexts
from .errors import CliError, UsageError
from .host_lock import running_host
from .output import print_error

if TYPE_CHECKING:
    from .. import Agent, Mesh

__all__ = [
    "Choice",
    "Context",
    "Contexts",
    "Target",
    "change_contexts",
    "check_own_host",
    "check_url",
    "contexts_path",
    "identify",
    "is_local",
    "kind_of",
    "load_contexts",
    "only_workspace",
    "open_agent",
    "open_mesh",
    "read_token",
    "resolve",
]

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What the options of a command say."""

    context: str | None = None
    url: str | None = None
    token_file: str | None = None
    workspace: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A host or an agent, with the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)
    kind: Kind | None = None
    """None: not known before it was asked."""
    workspace: str | None = None
    user: str | None = None
    data_dir: str | None = None
    """As in its context."""
    elsewhere: str | None = None
    """The folder in which the agent works, if it was not named and the current folder is another."""


def resolve(choice: Choice) -> Target:
    """Return what a command talks to. Raises UsageError, CliError for a file that cannot be read."""
    if choice.context and choice.url:
        raise UsageError("--context and --url name two servers", "keep one of them")
    url = choice.url or (None if choice.context else os.environ.get("AGENT_URL"))
    if url:
        check_url(url)
        return Target(url, _token_for(url, choice.token_file), None, choice.workspace, choice.user)
    contexts = load_contexts()
    name = choice.context or os.environ.get("AGENT_CONTEXT") or contexts.current
    if name is None:
        raise UsageError("no host and no agent is chosen", "start one with `agent up`, or name one with --url URL")
    return _of_context(contexts.get(name), choice)


def _token_for(url: str, token_file: str | None) -> str | None:
    """Return the token for a URL that is no context's. Those of the environment belong to AGENT_URL if that is set."""
    if token_file:
        return read_token(token_file)
    if os.environ.get("AGENT_URL") not in (None, "", url):
        return None
    kept = os.environ.get("AGENT_TOKEN_FILE")
    return read_token(kept) if kept else os.environ.get("AGENT_TOKEN") or None


def check_url(url: str) -> None:
    """Raises UsageError if it is no URL of a server."""
    if not _is_server(url):
        raise UsageError(f"url: {url!r} must be http://HOST:PORT or https://HOST", "a token goes into --token-file")


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for one that is no number, or too high
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and not (parts.username or parts.query or parts.fragment)
    )


def is_local(url: str) -> bool:
    """Whether the URL names this machine."""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


def _of_context(context: Context, choice: Choice) -> Target:
    check_url(context.url)
    token_file = choice.token_file or (None if context.token else context.token_file)
    token = read_token(token_file) if token_file else context.token
    folder = _current_folder()
    workspace = choice.workspace or context.workspace_in(folder)
    elsewhere = None if choice.workspace else context.elsewhere(folder)
    user = choice.user or context.user
    return Target(context.url, token, context.kind, workspace, user, context.data_dir, elsewhere)


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it is deleted
        return Path("/")


def read_token(name: str) -> str:
    """Read a token from a file. Raises CliError."""
    path = Path(name).expanduser()
    try:
        token = path.read_text(encoding="utf-8").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CliError(f"the token's file {path} cannot be read: {why}", "--token-file names another") from error
    if not token.isascii() or not token.isprintable() or not token:
        raise CliError(f"the token's file {path} must hold one line, the token", "--token-file names another")
    if mode & 0o077:
        print_error(f"warning: other users can read the token's file {path}; chmod 600 {path}")
    return token


@asynccontextmanager
async def open_agent(target: Target) -> AsyncGenerator[Agent]:
    """Give a client of the agent: behind a host that of the workspace that is named, or else of the only one. Raises
    UsageError, ClientError."""
    from .. import Agent

    target = await identify(target)
    if target.kind == "agent":
        async with Agent(target.url, target.token, target.user) as agent:
            yield agent
        return
    async with open_mesh(target) as mesh:
        yield mesh.agent(target.workspace or await only_workspace(mesh), target.user)


@asynccontextmanager
async def open_mesh(target: Target) -> AsyncGenerator[Mesh]:
    """Give a client of the host. Raises UsageError if the target is an agent."""
    from .. import Mesh

    target = await identify(target)
    if target.kind == "agent":
        raise UsageError(f"{target.url} is an agent, and this needs a host", "choose one with --context or --url")
    async with Mesh(target.url, target.token) as mesh:
        yield mesh


async def identify(target: Target) -> Target:
    """Return the target with its kind. Raises ClientError, CliError if no server is there."""
    return replace(target, kind=await kind_of(target))


async def kind_of(target: Target) -> Kind:
    """Return what the target is; its server is asked if it is not known. Raises ClientError, CliError."""
    from .. import Agent, Forbidden, NotFound

    _check_certificates(target.url)
    await _check_it_listens(target.url)
    check_own_host(target)
    if target.kind is not None:
        return target.kind
    async with Agent(target.url, target.token) as agent:
        try:
            await agent.status()
        except (NotFound, Forbidden):  # an agent has this route, for all who have its token
            return "host"
    return "agent"


def _check_certificates(url: str) -> None:
    from agent_common.net import trusting_tls

    if urlsplit(url).scheme == "https":
        try:
            trusting_tls(os.environ)
        except ValueError as failure:
            raise CliError(str(failure), "name a readable PEM file, or unset the variable") from None


async def only_workspace(mesh: Mesh) -> str:
    """Return the host's only workspace. Raises UsageError that names them if there are several."""
    from .. import Forbidden

    try:
        names = [workspace.id async for workspace in mesh.workspaces.list()]
    except Forbidden:
        raise UsageError("this token cannot list the workspaces", "name yours with -w WORKSPACE") from None
    if not names:
        raise UsageError("the host has no workspace", "make one with `agent up`")
    if len(names) > 1:
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise UsageError(f"the host has several workspaces: {shown}", "name one with -w WORKSPACE")
    return names[0]


async def _check_it_listens(url: str) -> None:
    """Raises CliError at once if nothing listens there on this machine: the client would go on trying for seconds."""
    parts = urlsplit(url)
    if not is_local(url):
        return
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
            )
    except (OSError, TimeoutError):
        raise CliError(f"nothing listens at {url}", "start it, for example with `agent up`") from None
    writer.close()


def check_own_host(target: Target) -> None:
    """Raises CliError if the target is a host of this user that does not run: another user's program may have taken its
    port, and would be sent the operator's token."""
    if target.data_dir is None:
        return
    host = running_host(Path(target.data_dir))
    if host is None or host.url != target.url:
        what = f"what listens at {target.url} is not the host of {target.data_dir}"
        raise CliError(what, "`agent up` starts that, at a port of its own")
