"""The bot itself, its commands, and its answers to interactions over REST."""

from __future__ import annotations

from ..world import errors, interactions, messages, payloads
from ..world.bodies import CallbackBody, parse, parse_commands, parse_message
from ..world.entities import JSON, Interaction
from .call import Answer, Call, Route

_COMMANDS = "/applications/{application_id}/commands"
_GUILD_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
_WEBHOOK = "/webhooks/{application_id}/{token}"


def read_self(call: Call) -> Answer:
    return payloads.user(call.bot) | {"verified": True, "email": None, "mfa_enabled": True, "locale": "en-US"}


def read_application(call: Call) -> Answer:
    return payloads.application(call.bot)


def read_user(call: Call) -> Answer:
    account = call.world.accounts.get(call.number("user_id"))
    if account is None:
        raise errors.unknown_user()
    return payloads.user(account)


def read_gateway(call: Call) -> Answer:
    return {"url": call.world.gateway_url}


def read_gateway_of_bot(call: Call) -> Answer:
    limit = {"total": 1000, "remaining": 999, "reset_after": 86_400_000, "max_concurrency": 1}
    return {"url": call.world.gateway_url, "shards": 1, "session_start_limit": limit}


def read_commands(call: Call) -> Answer:
    _refuse_another_application(call)
    guild = call.parameters.get("guild_id")
    return [each for each in call.bot.commands if each.get("guild_id") == guild]


def write_commands(call: Call) -> Answer:
    """Replace all commands; one with the name of an earlier one keeps its id."""
    _refuse_another_application(call)
    guild = call.parameters.get("guild_id")
    if guild is not None:
        call.world.guild(call.number("guild_id"), call.bot)
    earlier = {(each["type"], each["name"]): each["id"] for each in call.bot.commands if each.get("guild_id") == guild}
    written: list[JSON] = []
    for command in parse_commands(call.body):
        number = earlier.get((command["type"], command["name"])) or str(call.world.new_id())
        command |= {"id": number, "application_id": str(call.bot.id), "version": str(call.world.new_id())}
        written.append(command | ({"guild_id": guild} if guild else {}))
    others = [each for each in call.bot.commands if each.get("guild_id") != guild]
    call.bot.commands = others + written
    call.world.changed()
    return written


def _refuse_another_application(call: Call) -> None:
    if call.number("application_id") != call.bot.id:
        raise errors.Refused(403, 20012, "You are not authorized to perform this action on this application")


# ---------------------------------------------------------------- interactions


def answer_interaction(call: Call) -> Answer:
    body = parse(CallbackBody, call.body)
    number = call.number("interaction_id")
    token = call.parameters["token"]
    done = interactions.answer(call.world, number, token, body, call.uploads, call.interaction_seconds)
    if call.query.get("with_response", "").lower() not in {"1", "true"}:
        return None
    shown: JSON = {"id": str(done.id), "type": 2 if done.kind == "command" else 3}
    resource: JSON = {"type": body.type}
    if done.original is not None:
        shown |= {
            "response_message_id": str(done.original.id),
            "response_message_loading": done.original.loading,
            "response_message_ephemeral": done.original.ephemeral,
        }
        if done.answer in {"message", "update"}:
            resource["message"] = call.shown(done.original)
    return {"interaction": shown, "resource": resource}


def follow_up(call: Call) -> Answer:
    interaction = _interaction(call)
    message = interactions.follow_up(call.world, interaction, parse_message(call.body), call.uploads)
    return call.shown(message)


def read_answer(call: Call) -> Answer:
    return call.shown(interactions.message_of(_interaction(call), call.parameters["message_id"]))


def change_answer(call: Call) -> Answer:
    message = interactions.message_of(_interaction(call), call.parameters["message_id"])
    return call.shown(messages.edit(call.world, message, parse_message(call.body), call.uploads))


def remove_answer(call: Call) -> Answer:
    interactions.remove(call.world, _interaction(call), call.parameters["message_id"])
    return None


def _interaction(call: Call) -> Interaction:
    return interactions.find(call.world, call.number("application_id"), call.parameters["token"])


ROUTES = (
    Route("GET", "/gateway", read_gateway),
    Route("GET", "/gateway/bot", read_gateway_of_bot),
    Route("GET", "/users/@me", read_self),
    Route("GET", "/users/{user_id}", read_user),
    Route("GET", "/oauth2/applications/@me", read_application),
    Route("GET", "/applications/@me", read_application),
    Route("GET", _COMMANDS, read_commands),
    Route("PUT", _COMMANDS, write_commands),
    Route("GET", _GUILD_COMMANDS, read_commands),
    Route("PUT", _GUILD_COMMANDS, write_commands),
    Route(
        "POST",
        "/interactions/{interaction_id}/{token}/callback",
        answer_interaction,
        no_token=errors.unknown_interaction,
    ),
    Route("POST", _WEBHOOK, follow_up, "webhooks", no_token=errors.unknown_webhook),
    Route("GET", _WEBHOOK + "/messages/{message_id}", read_answer, "webhooks", no_token=errors.unknown_webhook),
    Route("PATCH", _WEBHOOK + "/messages/{message_id}", change_answer, "webhooks", no_token=errors.unknown_webhook),
    Route("DELETE", _WEBHOOK + "/messages/{message_id}", remove_answer, "webhooks", no_token=errors.unknown_webhook),
)
