"""The bot itself and its webhook. `getUpdates` waits, so the server has it."""

from __future__ import annotations

from typing import Any, cast

from ..api_error import bad_request
from ..parameters import Parameters
from ..world import Webhook, World


def get_me(world: World, _: Parameters) -> Any:
    abilities = {"can_join_groups": True, "can_read_all_group_messages": world.reads_all_messages}
    return {**world.bot.to_json(), **abilities, "supports_inline_queries": False}


def set_webhook(world: World, parameters: Parameters) -> Any:
    url = parameters.text("url")
    if url and not url.startswith("https://"):
        raise bad_request("bad webhook: An HTTPS URL must be provided for webhook")
    world.webhook = Webhook(url)
    _drop_pending(world, parameters)
    return True


def delete_webhook(world: World, parameters: Parameters) -> Any:
    world.webhook = Webhook()
    _drop_pending(world, parameters)
    return True


def get_webhook_info(world: World, _: Parameters) -> Any:
    info = {"url": world.webhook.url, "has_custom_certificate": False}
    return {**info, "pending_update_count": world.updates.pending}


def log_out(_: World, __: Parameters) -> Any:
    """Answer `logOut` and `close`, which concern servers that one runs oneself."""
    return True


def set_allowed_updates(world: World, parameters: Parameters) -> None:
    """Keep the kinds that a getUpdates asks for; without any, those of the call before."""
    kinds = parameters.json("allowed_updates", "allowed updates")
    if kinds is None:
        return
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in cast(list[Any], kinds)):
        raise bad_request("can't parse allowed_updates: expected an Array of String")
    world.updates.allowed = frozenset(cast(list[str], kinds)) or None


def _drop_pending(world: World, parameters: Parameters) -> None:
    if parameters.flag("drop_pending_updates"):
        world.updates.clear()
