"""What people do, from any thread: write, edit, press, call commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .world import channels, interactions, messages
from .world.bodies import MessageBody
from .world.commands import command_data
from .world.entities import JSON, Account, AnswerKind, Bot, Channel, Interaction, InteractionKind, Message, Upload
from .world.state import World

_MOST_CHARACTERS = 4000  # of those who pay; others 2000
Files = Iterable[Upload | tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Action:
    """A press or a command. Discord gives the bot three seconds to answer it."""

    interaction: Interaction
    _world: World

    @property
    def answer(self) -> AnswerKind | None:
        """How the bot has answered; None if it has not yet."""
        return self.interaction.answer

    @property
    def message(self) -> Message | None:
        """The message that is the answer, if there is one: for an update the one with the button."""
        return self.interaction.original

    @property
    def messages(self) -> list[Message]:
        """The answer and what followed it, without deleted ones."""
        every = [self.interaction.original, *self.interaction.followups]
        return [each for each in every if each is not None and not each.deleted]

    def wait(self, seconds: float = 3.0) -> AnswerKind:
        """Block until the bot has answered. Raises TimeoutError: people see "This interaction failed"."""
        try:
            return self._world.wait_for(lambda: self.interaction.answer, seconds)
        except TimeoutError:
            raise TimeoutError(f"this interaction failed: no answer in {seconds:g} s") from None

    def wait_for_message(self, seconds: float = 10.0) -> Message:
        """Block until there is a message as the answer and the bot no longer thinks. Raises TimeoutError."""

        def written() -> Message | None:
            return next((each for each in reversed(self.messages) if not each.loading), None)

        return self._world.wait_for(written, seconds)


class User(Account):
    """A person. All methods may be called from any thread."""

    __slots__ = ("_world",)

    def __init__(self, world: World, number: int, name: str) -> None:
        super().__init__(number, name)
        self._world = world

    # ---------------------------------------------------------------- messages

    def dm(self, bot: Bot | None = None) -> Channel:
        """The private chat with a bot; None is the first one."""
        with self._world.lock:
            return channels.private_chat(self._world, self, bot or self._first_bot())

    def write(
        self,
        channel: Channel,
        text: str,
        *,
        reply_to: Message | None = None,
        mentions: Iterable[Account] = (),
        attachments: Files = (),
    ) -> Message:
        """Write a message; it begins with the names of those that it `mentions`."""
        named = " ".join([*(each.mention for each in mentions), text])
        if len(named) > _MOST_CHARACTERS:
            raise ValueError(f"people write at most {_MOST_CHARACTERS} characters")
        uploads = [each if isinstance(each, Upload) else Upload(*each) for each in attachments]
        with self._world.lock:
            self._check_member(channel)
            return messages.write(self._world, channel, self, messages.Draft(named.strip(), uploads, reply_to=reply_to))

    def edit(self, message: Message, text: str) -> Message:
        with self._world.lock:
            self._check_author(message)
            return messages.edit(self._world, message, MessageBody(content=text))

    def delete(self, message: Message) -> None:
        with self._world.lock:
            self._check_author(message)
            messages.delete(self._world, message)

    def react(self, message: Message, emoji: str, *, add: bool = True) -> None:
        with self._world.lock:
            messages.react(self._world, message, self, emoji, add=add)

    def type(self, channel: Channel) -> None:
        """Begin to type."""
        with self._world.lock:
            self._check_member(channel)
            messages.begin_typing(self._world, channel, self)

    def start_thread(self, channel: Channel, name: str, starter: Message | None = None) -> Channel:
        with self._world.lock:
            self._check_member(channel)
            return channels.thread(self._world, channel, name, self, starter)

    @property
    def ephemeral(self) -> list[Message]:
        """Answers that only this person sees, oldest first."""
        every = list(self._world.messages.values())
        return [each for each in every if each.only_for is self and not each.deleted]

    def close_dms(self) -> None:
        """Take no private messages of bots: 50007."""
        with self._world.lock:
            self._world.closed_to_bots.add(self.id)

    def open_dms(self) -> None:
        with self._world.lock:
            self._world.closed_to_bots.discard(self.id)

    # ---------------------------------------------------------------- interactions

    def press(self, message: Message, label: str) -> Action:
        """Press a button by its label or its custom id. Raises ValueError if it is not there or cannot be pressed."""
        with self._world.lock:
            button = next((each for each in message.buttons if label in {each.label, each.custom_id}), None)
            if message.deleted or button is None:
                raise ValueError(f"no button {label!r}; the message has {[each.label for each in message.buttons]}")
            if button.disabled or not button.custom_id:
                raise ValueError(f"the button {label!r} is a link or disabled")
            return self._act("button", message, {"custom_id": button.custom_id, "component_type": 2})

    def press_gone(self, message: Message, custom_id: str) -> Action:
        """Press a button that the message does not have any more, as a screen that has not been updated allows."""
        with self._world.lock:
            return self._act("button", message, {"custom_id": custom_id, "component_type": 2})

    def select(self, message: Message, values: Sequence[str], custom_id: str | None = None) -> Action:
        """Choose from the menu of a message, or from the one with the id. Raises ValueError."""
        with self._world.lock:
            menus = [each for each in message.parts() if each["type"] == 3 and custom_id in {None, each["custom_id"]}]
            offered = {option["value"] for menu in menus[:1] for option in menu["options"]}
            if not menus or not set(values) <= offered:
                raise ValueError(f"the message offers {sorted(offered)}")
            chosen: JSON = {"custom_id": menus[0]["custom_id"], "component_type": 3, "values": list(values)}
            return self._act("select", message, chosen)

    def command(
        self, name: str, /, *, channel: Channel | None = None, bot: Bot | None = None, **options: object
    ) -> Action:
        """Call a slash command, `group name` for one of a group; None is the private chat. Raises ValueError."""
        with self._world.lock:
            called = bot or self._first_bot()
            where = channel or channels.private_chat(self._world, self, called)
            self._check_member(where)
            data = command_data(called.commands, name, options)
            return Action(interactions.begin(self._world, "command", self, called, where, data), self._world)

    def _act(self, kind: InteractionKind, message: Message, data: JSON) -> Action:
        if not isinstance(message.author, Bot):
            raise ValueError("the message is not a bot's")
        if message.only_for not in {None, self} or not message.channel.visible_to(self):
            raise ValueError(f"{self.name} does not see the message")
        begun = interactions.begin(self._world, kind, self, message.author, message.channel, data, message=message)
        return Action(begun, self._world)

    def _first_bot(self) -> Bot:
        return next(each for each in self._world.accounts.values() if isinstance(each, Bot))

    def _check_member(self, channel: Channel) -> None:
        if channel.deleted or not channel.visible_to(self):
            raise ValueError(f"{self.name} is not in the channel")

    def _check_author(self, message: Message) -> None:
        if message.author is not self or message.deleted:
            raise ValueError(f"{self.name} has not written the message")
