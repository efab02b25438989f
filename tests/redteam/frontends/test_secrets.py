"""Tokens and keys: in no log, no chat, no file of the bots, and not where an agent could read them."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from agent_testing import Call, Say
from agent_testing.telegram import FaultKind

from .world import PROVIDER_KEY, World

pytestmark = pytest.mark.slow

PRY = (
    "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n';"
    " cat /run/secrets/* ../*/token ~/.config/*/* 2>/dev/null; true"
)


def chats(world: World) -> str:
    telegram = [str(version) for chat in world.telegram.chats for one in chat.messages for version in one.versions]
    return "\n".join([*telegram, *(one.content for one in world.discord.messages)])


@pytest.mark.parametrize("kind", ["server_error", "html", "cut_before", "cut_after", "hang"])
@pytest.mark.parametrize("method", ["sendMessage", "getUpdates", "getFile", "file"])
def test_no_fault_of_the_platform_shows_a_token(world: World, method: str, kind: FaultKind) -> None:
    """The address of each call has the token in it, and an error may quote that."""
    ann = world.person("Ann")
    hello = ann.write(ann.chat, "hello")
    world.reply(ann.chat, "well said", after=hello.id)
    world.telegram.fail(method, kind, seconds=0.5)
    asked = ann.send_document(ann.chat, "a.txt", b"content", caption="take it")
    world.reply(ann.chat, "well said", after=asked.id)
    world.telegram.clear_faults()
    for secret in world.secrets:
        assert secret not in world.log
        assert secret not in chats(world)


def test_the_agent_cannot_read_a_secret(world: World) -> None:
    """A command of the model looks where secrets lie, and what it finds is what the model reads next."""
    ann = world.person("Ann")
    world.model(Call("bash", {"command": PRY}), Say("that was all"))
    asked = ann.write(ann.chat, "look around")
    world.reply(ann.chat, "that was all", after=asked.id)
    bodies = b"".join(one.body for one in world.provider.requests)
    for secret in world.secrets:
        assert secret.encode() not in bodies
        assert secret not in chats(world)


def test_no_process_of_an_agent_has_a_secret(world: World) -> None:
    """Seen from outside, with the rights of the machine's root."""
    children = psutil.Process(world.host.process.pid).children(recursive=True)
    assert children
    platforms = [one for one in world.secrets if one != PROVIDER_KEY]
    for child in children:
        seen = Path(f"/proc/{child.pid}/environ").read_bytes() + Path(f"/proc/{child.pid}/cmdline").read_bytes()
        for secret in [*platforms, PROVIDER_KEY]:
            assert secret.encode() not in seen, child.cmdline()


def test_the_bots_store_no_secret(world: World) -> None:
    world.settle(world.person())
    kept = b"".join(path.read_bytes() for path in world.database.parent.iterdir())
    for secret in world.secrets:
        assert secret.encode() not in kept


def test_no_command_of_a_person_shows_a_secret(world: World) -> None:
    ann = world.person("Ann")
    for command in ("/status", "/agent", "/model", "/cost", "/files", "/help", "/files ../bots.yaml", "/sessions"):
        asked = ann.write(ann.chat, command)
        world.reply(ann.chat, "", after=asked.id)
    for secret in world.secrets:
        assert secret not in chats(world)


def test_a_refused_token_is_not_quoted(world: World) -> None:
    """A bot whose token is wrong says so in the log of its operator, without it."""
    config = world.folder / "refused.yaml"
    secret = "123456:the-token-that-was-mistyped"
    bot = {"name": "x", "platform": "telegram", "token": secret, "base_url": world.telegram.url, "workspaces": ["ada"]}
    config.write_text(json.dumps({"mesh": {"url": world.host.url, "token": world.token}, "bots": [bot]}))
    data = str(world.folder / "refused")
    world.environment.update(AGENT_BOTS=str(config), BOTS_DATA_DIR=data)
    try:
        ended = world.command()
    finally:
        world.environment.update(AGENT_BOTS=str(world.folder / "bots.yaml"), BOTS_DATA_DIR=str(world.database.parent))
    assert ended.returncode == 1
    assert "does not accept its token" in ended.stderr
    for one in (secret, world.token):
        assert one not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "entry",
    [
        '{bots: [{name: x, platform: telegram, token: "1:secret-of-a-line", workspaces: a}]}',
        '{bots: [{name: x, platform: telegram, token: ["1:secret-of-a-line"], workspaces: [a]}]}',
        '{bots: [{name: x, platform: telegram, token: "1:secret-of-a-line\\nx", workspaces: [a]}]}',
        "bots: [{token: 1:secret-of-a-line]",
        '{mesh: {url: "http://a:secret-of-a-line@b"}, bots: [{name: x,platform: telegram, token: a, workspaces: [x]}]}',
    ],
    ids=["wrong-type-beside", "wrong-type", "two-lines", "no-yaml", "address"],
)
def test_a_wrong_file_is_not_quoted(world: World, entry: str) -> None:
    config = world.folder / "wrong.yaml"
    config.write_text(entry)
    before = world.environment["AGENT_BOTS"]
    world.environment["AGENT_BOTS"] = str(config)
    try:
        ended = world.command()
    finally:
        world.environment["AGENT_BOTS"] = before
    assert ended.returncode == 1
    assert "secret-of-a-line" not in ended.stdout + ended.stderr
