"""`agent pending` and `agent approve`: what waits for a person, at an agent or at all agents of a host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..contexts import Target, identify, open_agent, open_mesh
from ..errors import DONE, WAITS, CliError, UsageError
from ..output import exact_line, exact_text, local_time, print_error, safe_json
from ..run import Invocation, command

if TYPE_CHECKING:
    from agent_common.protocol import ListedRequest

    from ... import Agent

Scope = Literal["session", "agent"]
SHOWN_CHARACTERS = 200
"""Of the arguments of a call, in a list on a terminal. Beside a call that is not shown whole stands no code: what it
says there may be harmless, so its end is to be read before it is allowed."""


@command
async def pending(call: Invocation) -> None:
    """List questions and approvals that wait for a person, at all agents or at one with -w."""
    _list(call, await _waiting(await identify(call.whole())))


@command
async def approve(
    call: Invocation,
    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="What is answered, by its id or code; without it a list.")
    ] = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Allow this call.")] = False,
    always: Annotated[bool, typer.Option("--always", help="Allow such calls from now on, as --scope says.")] = False,
    scope: Annotated[
        Scope | None,
        typer.Option(help="With --always: for this session, or for all sessions of the user with the agent."),
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Refuse this call.")] = False,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the model; with --reject.")] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Answer a question: a text, or the number of an option. Once for each."),
    ] = None,
    session: Annotated[str | None, typer.Option("-s", "--session", help="If several wait under this id.")] = None,
) -> int:
    """Answer what waits for a person; without an answer show it whole."""
    chosen = [name for name, wanted in (("once", once), ("always", always), ("reject", reject)) if wanted]
    if len(chosen) + bool(answer) > 1:
        raise UsageError("these are several answers", "keep one of --once, --always, --reject and --answer")
    if reason is not None and not reject:
        raise UsageError("--reason is the reason of a rejection", "write it with --reject")
    if scope is not None and not always:
        raise UsageError("--scope says for what --always holds", "write it with --always")
    target = await identify(call.whole())
    found = await _waiting(target)
    if id is None:
        _list(call, found)
        return DONE
    request = _one(found, id, session)
    if not chosen and not answer:
        _show(call, request)
        return WAITS
    async with open_agent(replace(target, workspace=_workspace(request) or target.workspace)) as agent:
        await _give(agent, request, chosen, answer or (), reason, scope)
    if call.output.json:
        call.output.document({"id": request.id, "answered": True})
    else:
        call.output.line("answered")
    return DONE


async def _waiting(target: Target) -> Sequence[ListedRequest]:
    """Return what waits at the agent; behind a host at all agents, or in the workspace and for the user named."""
    if target.kind == "agent":
        async with open_agent(target) as agent:
            return [one async for one in agent.pending()]
    async with open_mesh(target) as mesh:
        found = await mesh.pending(workspace=target.workspace, user=target.user)
    for silent in found.unreachable:
        print_error(f"warning: {silent.workspace} did not answer, so its requests may be missing: {silent.detail}")
    return found.requests


def _list(call: Invocation, found: Sequence[ListedRequest]) -> None:
    if call.output.json:
        call.output.document({"pending": [one.model_dump(mode="json") for one in found]})
        return
    rows = [_row(one, cut=call.output.terminal) for one in found]
    columns = ("id", "kind", "workspace", "user", "session", "code", "since", "tool", "input")
    call.output.table(columns, rows, empty="nothing waits for a person")


def _row(one: ListedRequest, *, cut: bool) -> Sequence[str]:
    code = one.code or ""
    brief = exact_line(_brief(one))
    if cut and (missing := len(brief) - SHOWN_CHARACTERS) > 0:
        code = ""
        brief = f"{brief[:SHOWN_CHARACTERS]}… {missing} characters more: agent approve {one.id}"
    since = local_time(one.since)
    return one.id, one.kind, _workspace(one), one.user, one.session_id, code, since, exact_line(one.tool), brief


def _workspace(request: ListedRequest) -> str:
    return str(getattr(request, "workspace", None) or "")


def _brief(request: ListedRequest) -> str:
    if request.kind == "question":
        return " / ".join(str(one.get("question", "")) for one in _questions(request))
    return safe_json(request.input)


def _questions(request: ListedRequest) -> Sequence[dict[str, Any]]:
    return request.input.get("questions") or ()


def _one(found: Sequence[ListedRequest], id: str, session: str | None) -> ListedRequest:
    """Return the request of that id or code. Raises CliError, UsageError if several have it."""
    same = [one for one in found if id in (one.id, one.code) and session in (None, one.session_id)]
    if not same:
        raise CliError(f"nothing waits under the id {id!r}", "`agent pending` lists what does")
    if len(same) > 1:
        where = ", ".join(f"{_workspace(one)} {one.session_id}".strip() for one in same)
        raise UsageError(f"several wait under the id {id!r}: {where}", "choose with -s SESSION and -w WORKSPACE")
    return same[0]


def _show(call: Invocation, request: ListedRequest) -> None:
    from agent_common.protocol import how_to_decide

    if call.output.json:
        call.output.document(request.model_dump(mode="json"))
        return
    until = local_time(request.expires_at)
    call.output.line(f"{request.kind} {request.id} of {request.user} in session {request.session_id}, until {until}")
    if request.kind == "question":
        for question in _questions(request):
            call.output.line(str(question.get("question", "")))
            for number, option in enumerate(question.get("options") or (), 1):
                call.output.line(f"  {number}. {option.get('label', '')} {option.get('description') or ''}".rstrip())
        call.output.note("answer it with --answer TEXT")
        return
    call.output.line(exact_line(f"{request.tool}, {request.reason or 'no rule allows it'}"))
    call.output.text(exact_text(safe_json(request.input, indent=2)) + "\n")
    for rule in request.always:
        call.output.line(f"--always adds the rule {exact_text(safe_json(rule))}")
    if request.always:
        call.output.line("  to this session, and to no other")
        call.output.line(f"  with --scope agent to all sessions of {request.user} with agent {request.agent}")
    in_text = f"; in the conversation, {how_to_decide(request.code)}" if request.code else ""
    call.output.note(f"answer it with --once, --always or --reject{in_text}")


async def _give(
    agent: Agent,
    request: ListedRequest,
    chosen: Sequence[str],
    answers: Sequence[str],
    reason: str | None,
    scope: Scope | None,
) -> None:
    if request.kind == "approval":
        if not chosen:
            raise UsageError("an approval takes no --answer", "write --once, --always or --reject")
        await agent.answer(request, chosen[0], reason, scope=scope)
        return
    questions = _questions(request)
    if chosen or len(answers) != len(questions):
        raise UsageError(f"questions: {len(questions)}, answers: {len(answers)}", "write --answer TEXT once for each")
    await agent.answer(request, [_text(one, text) for one, text in zip(questions, answers, strict=True)])


def _text(question: dict[str, Any], text: str) -> str:
    """Return the answer: the label of an option where the text is its number."""
    options = question.get("options") or ()
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return str(options[int(text) - 1].get("label", text))
    return text
