"""Messages of channels over REST."""

from __future__ import annotations

from itertools import islice

from ..world import errors, intents
from ..world.bodies import parse_message
from ..world.entities import JSON
from ..world.messages import begin_typing, delete, edit, post, react, refuse_unwritable
from .call import Answer, Call, Route

_PATH = "/channels/{channel_id}/messages"
_ONE = _PATH + "/{message_id}"
_REACTION = _ONE + "/reactions/{emoji}"


def create(call: Call) -> Answer:
    channel = call.channel()
    return call.shown(post(call.world, call.bot, channel, parse_message(call.body), call.uploads))


def read_one(call: Call) -> Answer:
    return call.shown(call.message())


def read_many(call: Call) -> Answer:
    """At most `limit` messages, the newest first: those next to `after`, `before` or `around`."""
    limit = call.integer("limit", 50)
    if not 1 <= limit <= 100:
        raise errors.invalid_form(["limit"], "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
    messages = call.channel().messages
    if "after" in call.query:
        after = call.integer("after", 0)
        chosen = list(islice((each for each in messages if each.id > after), limit))
    elif "before" in call.query:
        before = call.integer("before", 0)
        chosen = [each for each in messages if each.id < before][-limit:]
    elif "around" in call.query:
        around = call.integer("around", 0)
        nearest = sorted(messages, key=lambda each: abs(each.id - around))[:limit]
        chosen = sorted(nearest, key=lambda each: each.id)
    else:
        chosen = messages[-limit:]
    return [call.shown(each) for each in reversed(chosen)]


def change(call: Call) -> Answer:
    message = call.message()
    body = parse_message(call.body)
    if message.author is not call.bot:
        raise errors.another_author()
    if message.channel.archived or message.channel.locked:
        raise errors.archived_thread()
    return call.shown(edit(call.world, message, body, call.uploads))


def remove(call: Call) -> Answer:
    message = call.message()
    if message.author is not call.bot and (message.channel.kind == "dm" or message.channel.read_only):
        raise errors.Refused(403, 50003, "Cannot execute action on a DM channel")
    delete(call.world, message)
    return None


def typing(call: Call) -> Answer:
    channel = call.channel()
    refuse_unwritable(call.world, channel)
    begin_typing(call.world, channel, call.bot)
    return None


def add_reaction(call: Call) -> Answer:
    react(call.world, call.message(), call.bot, call.parameters["emoji"], add=True)
    return None


def remove_reaction(call: Call) -> Answer:
    react(call.world, call.message(), call.bot, call.parameters["emoji"], add=False)
    return None


def clear_reactions(call: Call) -> Answer:
    message = call.message()
    message.reactions = {}
    data: JSON = {"channel_id": str(message.channel.id), "message_id": str(message.id)}
    intent = (intents.GUILD_MESSAGE_REACTIONS, intents.DIRECT_MESSAGE_REACTIONS)
    name = "MESSAGE_REACTION_REMOVE_ALL"
    call.world.publish(name, lambda _bot, _contents: data, channel=message.channel, intent=intent)
    return None


ROUTES = (
    Route("POST", _PATH, create, "messages"),
    Route("GET", _PATH, read_many),
    Route("GET", _ONE, read_one),
    Route("PATCH", _ONE, change, "edits"),
    Route("DELETE", _ONE, remove),
    Route("POST", "/channels/{channel_id}/typing", typing),
    Route("PUT", _REACTION + "/@me", add_reaction),
    Route("DELETE", _REACTION + "/@me", remove_reaction),
    Route("DELETE", _ONE + "/reactions", clear_reactions),
)
