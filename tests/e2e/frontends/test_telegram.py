"""The process of the bots, Telegram's double, a host and its agent: all of it, over kill -9."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from agent_client.sync import SyncMesh
from agent_common.protocol import SessionRule
from agent_testing import Call, LiveProcess, Say
from agent_testing.telegram import Chat, FakeTelegram, Message, User
from tests.integration.host.live import OPERATOR
from tests.storm_seed import storm_seed

from .conftest import WORKSPACE, World, children_of

SECONDS = 60.0
PEOPLE, MESSAGES, KILLS = 6, 6, 12
CUT = "The agent was restarted in the middle of this."


class Process:
    """`python -m frontends`; it may be killed and started again."""

    def __init__(
        self, folder: Path, world: World, telegram: FakeTelegram, people: list[User], name: str = "home"
    ) -> None:
        config = folder / "bots.yaml"
        bot = {
            "name": name,
            "platform": "telegram",
            "token": telegram.token,
            "base_url": telegram.url,
            "workspaces": [WORKSPACE],
            "people": [f"telegram:{one.id}" for one in people],
        }
        config.write_text(json.dumps({"mesh": {"url": world.host.url, "token": OPERATOR}, "bots": [bot]}))
        self._environment = {"AGENT_BOTS": str(config), "BOTS_DATA_DIR": str(folder / "data"), "HOME": str(folder)}
        self._life = ExitStack()

    def start(self) -> None:
        command = [sys.executable, "-m", "frontends"]
        self._process = self._life.enter_context(LiveProcess(command, self._environment, timeout=SECONDS))

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._life.close()

    def close(self) -> None:
        self._life.close()


@pytest.fixture
def telegram() -> Iterator[FakeTelegram]:
    with FakeTelegram() as telegram:
        yield telegram
        # A process that was just started does not know when the one that was killed has last written.
        assert [one for one in telegram.violations if one.reason != "too fast in one chat"] == []


def texts(ann: User) -> list[str]:
    return [one.text for one in ann.chat.messages if one.sender.is_bot]


def found(telegram: FakeTelegram, ann: User, part: str) -> Message:
    return shown(telegram, ann.chat, part)


def card(telegram: FakeTelegram, chat: Chat) -> Message:
    """Wait for a message with buttons."""
    message = telegram.wait_for(lambda: next((one for one in chat.replies if one.buttons), None), SECONDS)
    assert message is not None
    return message


def shown(telegram: FakeTelegram, chat: Chat, part: str) -> Message:
    def find() -> Message | None:
        return next((one for one in reversed(chat.messages) if one.sender.is_bot and part in one.text), None)

    try:
        message = telegram.wait_for(find, SECONDS)
    except Exception as error:
        raise AssertionError(f"{part!r} is not in {[one.text for one in chat.replies]}") from error
    assert message is not None
    return message


@pytest.mark.slow
def test_a_chat_with_an_approval_over_kills_of_the_bot(world: World, telegram: FakeTelegram, tmp_path: Path) -> None:
    ann = telegram.create_user("Ann")
    process = Process(tmp_path, world, telegram, [ann])
    process.start()
    try:
        first = ann.write(ann.chat, "hello")
        found(telegram, ann, "well said")
        with SyncMesh(world.host.url, OPERATOR) as mesh:
            rule = SessionRule(permission="bash", pattern="*", action="ask")
            mesh.agent(WORKSPACE, f"telegram:{ann.id}").sessions.permit(f"home-{ann.chat.id}-1", [rule])
        world.provider.script.replace(
            [Call("bash", {"command": "echo approved"}, text="I **run** it."), Say("It ran.")],
            otherwise=Say("well said"),
        )
        ann.write(ann.chat, "run it")
        card = found(telegram, ann, "Allow bash?")
        process.kill()
        process.start()
        ann.press(card, "✅ Once", seconds=SECONDS)
        found(telegram, ann, "It ran.")
        found(telegram, ann, "Allowed once by Ann")
        assert [text.partition("\n")[0] for text in texts(ann)] == [
            "well said",
            "I run it.",
            "🔐 Allow bash?",
            "It ran.",
        ]
        ann.write(ann.chat, "/status")
        found(telegram, ann, "Agent: ada")
        ann.write(ann.chat, "another way", reply_to=first)
        ann.press(found(telegram, ann, "Go back to there?"), "↩ Go back", seconds=SECONDS)
        found(telegram, ann, "Went back.")
        ann.send_document(ann.chat, "notes.txt", b"some notes")
        found(telegram, ann, "well said")
        telegram.wait_for(lambda: "[file inbox/" in str(world.provider.requests[-1].messages), SECONDS)
    finally:
        process.close()


@pytest.mark.slow
def test_a_group_that_becomes_a_supergroup_goes_on_over_a_kill_of_the_bot(
    world: World, telegram: FakeTelegram, tmp_path: Path
) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_group("Team", ann)
    process = Process(tmp_path, world, telegram, [ann], "mover")
    process.start()
    try:
        ann.write(group, "@helper_bot one")
        shown(telegram, group, "well said")
        with SyncMesh(world.host.url, OPERATOR) as mesh:
            rule = SessionRule(permission="bash", pattern="*", action="ask")
            mesh.agent(WORKSPACE, f"telegram:{group.id}").sessions.permit(f"mover-{group.id}-1", [rule])
        calls = [Call("bash", {"command": f"echo {number}"}) for number in range(2)]
        world.provider.script.replace([*calls, Say("Both ran.")], otherwise=Say("well said"))
        ann.write(group, "@helper_bot run them")
        before = card(telegram, group)
        supergroup = group.migrate()
        ann.press(before, "✅ Once", seconds=SECONDS)
        shown(telegram, supergroup, "Allowed once by Ann")
        after = card(telegram, supergroup)
        assert "echo 1" in after.text
        process.kill()
        process.start()
        ann.press(after, "✅ Once", seconds=SECONDS)
        shown(telegram, supergroup, "Both ran.")
        world.provider.clear()
        ann.write(supergroup, "@helper_bot two")
        telegram.wait_for(lambda: world.provider.requests, SECONDS)
        assert "one" in str(world.provider.requests[0].messages), "it is the same session"
        assert [one.text for one in group.replies if "Allowed" in one.text] == []
    finally:
        process.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("agent_too", [False, True])
def test_each_message_is_answered_once_over_many_kills(
    world: World, telegram: FakeTelegram, tmp_path: Path, agent_too: bool
) -> None:
    world.provider.script.replace(lambda request: Say(f"Re: {request.last_user_text.splitlines()[0]}", delay=0.05))
    people = [telegram.create_user(f"Person {number}") for number in range(PEOPLE)]
    process = Process(tmp_path, world, telegram, people, f"storm{agent_too}")
    process.start()
    chooser, agents_killed = Random(storm_seed()), 0
    try:
        with ThreadPoolExecutor(PEOPLE) as pool:
            conversations = [pool.submit(converse, telegram, one) for one in people]
            for _ in range(KILLS):
                wait(conversations, timeout=chooser.uniform(0.2, 3.0))
                if agent_too and chooser.random() < 0.5:
                    found = children_of(world.host.process.pid)
                    for pid in found:
                        os.kill(pid, signal.SIGKILL)
                    agents_killed += bool(found)
                else:
                    process.kill()
                    process.start()
            for one in conversations:
                one.result()
    finally:
        process.close()
    failed = {one.id: sum(CUT in text for text in answers(one)) for one in people}
    print(f"{agents_killed} times the agent was killed, and {sum(failed.values())} turns have failed by that: {failed}")
    for one in people:
        assert failed[one.id] <= agents_killed, "each time one turn of a person is cut off at most"
        wanted = [f"Re: {number} of {one.id}" for number in range(MESSAGES)]
        assert [wanted[at] if CUT in text else text for at, text in enumerate(answers(one))] == wanted


def converse(telegram: FakeTelegram, person: User) -> None:
    """Write one message after the other, each when the one before is answered."""
    for number in range(MESSAGES):
        person.write(person.chat, f"{number} of {person.id}")

        def is_answered(number: int = number) -> bool:
            found = answers(person)[number:]
            return bool(found) and (found[0] == f"Re: {number} of {person.id}" or CUT in found[0])

        try:
            telegram.wait_for(is_answered, SECONDS)
        except Exception as error:
            raise AssertionError(f"{number} is not answered in {texts(person)}") from error


def answers(person: User) -> list[str]:
    """The replies in a chat. What the bot says of an agent that does not run is none."""
    return [text for text in texts(person) if text.startswith("Re:") or CUT in text]
