"""The chat in a terminal: one conversation, its transcript, and the screen, wired to each other."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.console import Group, RenderableType
from rich.text import Text

from agent_common.protocol import NOTICE_EVENT, SessionMessage

from ... import (
    Agent,
    AgentEvent,
    Approval,
    ChatEvent,
    ClientError,
    Finished,
    NotFound,
    Question,
    Started,
    ToolCall,
    ToolResult,
)
from ...chat import duration
from ..contexts import is_local
from ..errors import CliError, explain
from ..output import Output, safe_line
from .agent_watch import AgentWatch
from .blocks import SPINNER, FileChange, Marked, Transcript, backup_of
from .commands import COMMANDS, argument_values, run_command
from .conversation import Conversation, Message
from .file_changes import made_change
from .options import ChatOptions
from .person import Person
from .replay import events_of, latest_messages, text_of
from .screen import ChatCompleter, Completable, Folders, Screen, open_history
from .status_line import drawn_status, status_parts


class ChatWindow:
    """Shows a conversation and does what keys and commands say."""

    def __init__(self, agent: Agent, session: str, options: ChatOptions) -> None:
        self.agent = agent
        self.options = options
        commands = [Completable(one.name, one.help) for one in COMMANDS]
        completer = ChatCompleter(commands, lambda name: argument_values(self, name), Folders(agent))
        self.screen = Screen(completer, open_history(options.history))
        self.screen.handler = self
        self.transcript = Transcript(self.screen)
        self.watch = AgentWatch(agent, self.screen.changed)
        self.conversation = Conversation(agent, session, self, self.watch.online)
        self.conversation.model = options.by.model
        self.conversation.manifest = options.by.agent
        self.person = Person(agent, self.screen, self.transcript, self.watch.online, self.stop)
        self._inputs: dict[str, ToolCall] = {}
        """Calls of the turn whose change is shown with their result."""

    async def run(self) -> int:
        """Chat until the person leaves."""
        for work in (self.conversation.run(), self.watch.run(), self.watch.hear(self._heard), self._open()):
            self.screen.start(work)
        code = await self.screen.run()
        if self.watch.known.session is not None:
            again = f"agent chat -s {shlex.quote(safe_line(self.conversation.session))}"
            Output().line()
            Output().note(f"The session continues with: {again}")
        return code

    # ---------------------------------------------------------------- keys

    @property
    def busy(self) -> bool:
        return self.conversation.busy

    def submit(self, text: str) -> None:
        """Send a message, or run a command."""
        if text.startswith("/") and not text.startswith("//"):
            self.screen.start(self._command(text))
        else:
            self._try_to(lambda: self.conversation.send(text.removeprefix("/") if text.startswith("//") else text))

    def queue(self, text: str) -> None:
        self._try_to(lambda: self.conversation.queue(text))

    def stop(self) -> None:
        self.screen.start(self._stop())

    # ---------------------------------------------------------------- what is drawn

    def live(self) -> Sequence[RenderableType]:
        """The open end of the reply, the calls that run, and the messages that wait."""
        blocks: list[RenderableType] = list(self.transcript.live())
        if blocks and self.transcript.live_apart:
            blocks.insert(0, Text(""))
        if self.busy and self.screen.menu is None:
            blocks += [Text(""), self._activity()]
        blocks += [self._waiting(message) for message in self.conversation.waiting]
        return [*blocks, Text("")]

    def _waiting(self, message: Message) -> RenderableType:
        first, *more = (message.text or "").split("\n")
        word = "joins at the next step" if message.steers else "queued"
        shown = Text(f"{safe_line(first)}{' …' if more else ''}", "dim", no_wrap=True, overflow="ellipsis")
        return Marked(f"  ↳ {word}: ", "dim", shown)

    def status(self, width: int) -> StyleAndTextTuples:
        online = self.watch.online.is_set()
        return drawn_status(status_parts(self.watch.known, self.conversation, online=online), width)

    def _activity(self) -> Text:
        spinner = SPINNER[int(monotonic() * 10) % len(SPINNER)]
        if not self.watch.online.is_set():
            fix = "; is its host down? `agent up`" if is_local(self.options.where) else ""
            return Text.assemble((f"{spinner} The agent does not answer", "bad"), (f"  trying again{fix}", "dim"))
        taken = duration(self.transcript.seconds) if self.transcript.seconds >= 1 else ""
        hint = " · ".join(filter(None, (taken, "Esc stops")))
        return Text.assemble((f"{spinner} {self.transcript.activity}", "accent"), (f"  {hint}", "dim"))

    # ---------------------------------------------------------------- what the conversation tells

    def changed(self) -> None:
        self.screen.changed()

    def user(self, text: str) -> None:
        self.transcript.user(text)

    def problem(self, text: str) -> None:
        self.transcript.problem(text)

    async def event(self, event: ChatEvent) -> None:
        """Take the next event of the turn that is followed."""
        if isinstance(event, ToolCall):
            self._inputs[event.id] = event
        self.transcript.event(event, await self._change(event))
        match event:
            case Approval() | Question():
                self.person.ask(event)
            case ToolResult():
                self.person.answered(event.id)
            case Started():
                self.screen.start(self._read_session())
            case Finished():
                self._inputs.clear()
                self.person.answered()
                self.screen.start(self._read_session())
            case _:
                return

    async def other_turn(self) -> None:
        """Show the message with which another window has begun a turn."""
        with suppress(ClientError):
            messages, _ = await latest_messages(self.agent, self.conversation.session, turns=1)
            for message in messages:
                if message.role == "user":
                    self.transcript.user(text_of(message), "from another window")

    async def missed_turn(self) -> None:
        """Show the reply to it, which was there before it could be followed."""
        with suppress(ClientError):
            messages, _ = await latest_messages(self.agent, self.conversation.session, turns=1)
            self.show([message for message in messages if message.role != "user"])

    async def _change(self, event: ChatEvent) -> FileChange | None:
        call = self._inputs.pop(event.id, None) if isinstance(event, ToolResult) else None
        if call is None or not isinstance(event, ToolResult) or event.error:
            return None
        return await made_change(self.agent, call.name, call.input, backup_of(event))

    # ---------------------------------------------------------------- sessions

    async def open(self, session: str) -> None:
        """Talk in another session: show its end, and the turn that runs. Raises CliError, ClientError."""
        self.conversation.switch(session)
        await self._show_session()

    def show(self, messages: Sequence[SessionMessage]) -> None:
        """Print recorded messages."""
        for message in messages:
            if message.role == "user":
                self.transcript.user(text_of(message))
            else:
                for event in events_of(message):
                    self.transcript.event(event)
        self.transcript.end()

    async def _show_session(self) -> None:
        name = self.conversation.session
        session = await self.watch.read_session(name)
        if session is None:
            return
        messages, before = await latest_messages(self.agent, name)
        running = session.status.state in ("busy", "retrying", "waiting_on_approval", "waiting_on_user_input")
        if running and messages and messages[-1].role == "assistant":
            messages = messages[:-1]  # its turn comes from the beginning
        if before:
            self.transcript.notice(f"… {before} earlier messages")
        self.show(messages)
        if running:
            self.conversation.watch(shown=True)

    def _hello(self) -> None:
        """Say who is there, before anything else."""
        status = self.watch.known.status
        about = Text.assemble((safe_line(status.agent_id if status else "agent"), "bold"))
        for part in (status.role if status else "", self.options.where, f"version {status.version}" if status else ""):
            about.append(f"  {safe_line(part)}", "dim")
        help_line = Text("/help for commands and keys · Ctrl-D leaves", "dim")
        self.screen.print(Marked("● ", "good", Group(about, help_line)))

    async def _open(self) -> None:
        try:
            await self.watch.ask()
            self._hello()
            await self._show_session()
        except ClientError as error:
            self.problem(explain(error))
        if self.options.message:
            self.submit(self.options.message)

    async def _read_session(self) -> None:
        await self.watch.read_session(self.conversation.session)

    # ----------------------------------------------------------------

    async def _command(self, text: str) -> None:
        self.transcript.command(text)
        try:
            await run_command(self, text)
        except NotFound as error:
            is_new = error.code == "unknown_session" and self.watch.known.session is None
            self.problem("the session begins with its first message" if is_new else explain(error))
        except (CliError, ClientError) as error:
            self.problem(explain(error) if isinstance(error, ClientError) else str(error))

    async def _stop(self) -> None:
        text = await self.conversation.stop()
        if text and not self.screen.input.text:
            self.screen.put(text)

    def _heard(self, event: AgentEvent) -> None:
        known = self.watch.known.session
        names = {self.conversation.session} | ({known.id, known.session_id} if known else set[str]())
        if event.type == NOTICE_EVENT:
            where = "" if event.data.get("session_id") in names else f" (in {event.data.get('session_id')})"
            self.transcript.notice(f"🔔 {event.data.get('text', '')}{where}", "accent")
        if event.type == "approval-resolved" and event.data.get("session_id") in names:
            self.person.resolved(str(event.data.get("id")))
        begun = event.type == "turn-started" and event.data.get("session_id") in names
        if begun and not self.conversation.is_mine(str(event.data.get("message_id"))):
            self.conversation.watch()

    def _try_to(self, send: Callable[[], None]) -> None:
        try:
            send()
        except CliError as error:
            self.problem(str(error))
