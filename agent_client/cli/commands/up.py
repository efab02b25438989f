"""`agent up` and `agent down`: a host on this machine, and an agent that works in the current folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..contexts import Choice, Context, Contexts, change_contexts, load_contexts, open_agent, read_token, resolve
from ..errors import CliError, UsageError
from ..run import Invocation, local_command

if TYPE_CHECKING:
    from ..local import ModelChoice, ModelOptions, RunningHost

CONTEXT = "local"
"""The name of the context that `agent up` makes."""


@local_command
async def up(
    call: Invocation,
    provider: Annotated[
        Literal["demo", "openai-compatible", "anthropic"] | None, typer.Option(help="What answers for the model.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Of an endpoint that speaks OpenAI's HTTP, or Anthropic's.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The provider's name of the model.")] = None,
    *,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: the demo model, unless another is set.")
    ] = False,
    no_chat: Annotated[bool, typer.Option("--no-chat", help="Do not open the chat.")] = False,
) -> int | None:
    """Start an agent that works in this folder, and chat with it.

    A host is started if none runs. The first time you are asked for the model; --provider chooses another later.
    Its key is OPENAI_API_KEY (ANTHROPIC_API_KEY), what OPENAI_API_KEY_FILE names, or asked for.
    """
    from agent_common.user_folder import check_user_folder

    from ..local import ModelOptions, data_dir, id_of, one_at_a_time, running_host, why_there

    chats = not no_chat and not call.output.json and sys.stdin.isatty() and call.output.terminal
    options = ModelOptions(provider, base_url, model, ask=sys.stdin.isatty() and not call.output.json, assume=yes)
    data = data_dir()
    try:
        folder = check_user_folder(Path.cwd(), apart_from=(data,))
    except (ValueError, OSError) as error:
        raise UsageError(f"an agent cannot work in this folder: {error}", "cd there, then `agent up`") from None
    choice = await _choice(call, data, options)
    notes = _notes_for_new(folder)
    async with one_at_a_time(data):
        host = running_host(data)
        if host is None:
            host = await _started(call, data, choice)
            call.output.note(f"the host is at {host.url}{why_there(host)}")
        workspace = await _open(host, data, folder)
    if workspace != (name := id_of(folder)):
        call.output.note(f"the name {name} is taken by another agent, so this one is {workspace}")
    for note in notes:
        call.output.note(note)
    if chats:
        code = await _chat()
        call.output.note("The agent still runs, with its host: `agent down` stops them.")
        return code
    if call.output.json:
        call.output.document({"workspace": workspace, "folder": str(folder), "url": host.url, "context": CONTEXT})
    else:
        call.output.line(f"agent {workspace} works in {folder}")
        call.output.note("talk to it: `agent chat`, or `agent -p 'list files'`; `agent down` stops everything")
    return None


def _notes_for_new(folder: Path) -> list[str]:
    """Return what a person should know of an agent in a folder that had none."""
    known = {path: one for context in load_contexts().contexts for path, one in context.folders.items()}
    if str(folder) in known:
        return []
    above = next((path for path in map(str, folder.parents) if path in known), None)
    another = f"this is another agent than {known.get(above or '')} in {above}, with a memory and sessions of its own"
    asks = "commands in this folder run without asking; `/permissions ask bash *` in a chat changes that"
    return [another, asks] if above else [asks]


async def _choice(call: Invocation, data: Path, options: ModelOptions) -> ModelChoice | None:
    """Return the model of a host that is to be started; None if one runs already."""
    from ..local import choose_model, ignored_variables, load_choice, running_host

    runs = running_host(data) is not None
    saved = load_choice(data)
    if options.named and runs:
        raise UsageError("a host runs already, with a model of its own", "`agent down` first")
    if not options.named and saved and (ignored := ignored_variables(saved)):
        call.output.note(f"{ignored}{', after `agent down`' if runs else ''}")
    if runs:
        return None
    return await choose_model(options, saved, call.output) if options.named or saved is None else saved


async def _started(call: Invocation, data: Path, choice: ModelChoice | None) -> RunningHost:
    from ..local import models_in_words, saved_if_it_works, start_host

    if choice is None:
        raise CliError("the host has just ended", "`agent up` again starts another")
    call.output.note(f"starting the host, with {models_in_words(choice)}")
    with saved_if_it_works(choice, data):
        return await start_host(data, choice)


async def _open(host: RunningHost, data: Path, folder: Path) -> str:
    """Have the agent of the folder run, make the context for it the current one, and return its id."""
    from ... import Mesh, Unauthorized
    from ..local import open_folder, operator_token_file

    path = operator_token_file(data)
    fix = f"`agent-host token operator --keep` writes it to {path}, or stop that host and run `agent up`"
    if not path.exists():
        raise UsageError(f"a host runs already (process {host.pid}), and its operator's token is not known here", fix)
    try:
        async with Mesh(host.url, read_token(str(path))) as mesh:
            workspace = await open_folder(mesh, folder)
    except Unauthorized:
        raise UsageError(f"the host (process {host.pid}) does not know the token in {path}", fix) from None

    def with_folder(known: Contexts) -> Contexts:
        folders = {**_folders(known, str(path)), str(folder): workspace.id}
        context = Context(
            CONTEXT,
            host.url,
            "host",
            token_file=str(path),
            workspace=workspace.id,
            data_dir=str(data),
            folders=folders,
        )
        return known.with_context(context, use=True)

    change_contexts(with_folder)
    return workspace.id


def _folders(known: Contexts, token_file: str) -> Mapping[str, str]:
    """Return the folders in which agents of this host work, as far as they are still there."""
    before = (one.folders for one in known.contexts if (one.name, one.token_file) == (CONTEXT, token_file))
    return {path: workspace for folders in before for path, workspace in folders.items() if Path(path).is_dir()}


async def _chat() -> int:
    from ..chat import ChatOptions, history_path, run_chat

    target = resolve(Choice(context=CONTEXT))
    async with open_agent(target) as agent:
        return await run_chat(agent, ChatOptions(where=target.url, history=history_path(target)))


@local_command
async def down(call: Invocation) -> None:
    """Stop the host on this machine, and its agents. `agent up` starts them again."""
    from ..local import data_dir, stop_host

    host = await stop_host(data_dir())
    if call.output.json:
        call.output.document({"stopped": host is not None, "pid": host.pid if host else None})
    else:
        call.output.line(f"stopped the host, process {host.pid}, and its agents" if host else "no host runs here")
