"""Files both ways: too large, not what they say, without an end, from where they may not come."""

from __future__ import annotations

import os
import re
import stat

import pytest

from agent_client.sync import SyncMesh
from agent_testing import Call, Say
from agent_testing.discord import Upload
from tests.integration.host.live import OPERATOR

from .world import WORKSPACE, World

pytestmark = pytest.mark.slow

LIMIT = 8 * 1024 * 1024
ESCAPES = {
    "upwards": "[x](workspace:../../../../../../etc/passwd)",
    "absolute": "[x](workspace:/etc/passwd)",
    "percent": "[x](workspace:%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd)",
    "twice-percent": "[x](workspace:%252e%252e/etc/passwd)",
    "dots-within": "[x](workspace:inbox/../../../etc/passwd)",
    "in-brackets": "[x](<workspace:/proc/self/environ>)",
    "control-character": "[x](workspace:a%00/../etc/passwd)",
    "other-scheme": "[x](file:///etc/passwd) [y](workspace://etc/passwd)",
    "link": "[x](workspace:leak) ![y](workspace:folder/passwd)",
}


def test_a_file_that_is_too_large_is_not_taken(world: World) -> None:
    ann = world.person("Ann")
    asked = ann.send_document(ann.chat, "big.bin", b"x", size=2**40, caption="words-with-big")
    world.reply(ann.chat, "was not taken", after=asked.id)


@pytest.mark.parametrize("size", [1, None, 0], ids=["said-to-be-small", "as-it-is", "said-to-be-empty"])
def test_a_file_that_is_larger_than_it_says_is_not_stored(world: World, size: int | None) -> None:
    ann = world.person("Ann")
    asked = ann.send_document(ann.chat, "sizes.bin", b"x" * (2 * LIMIT), size=size, caption="words-with-sizes")
    world.reply(ann.chat, "was not taken", after=asked.id)
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        agent = mesh.agent(WORKSPACE, f"telegram:{ann.id}")
        folders = [one.name for one in agent.files.list("") if one.type == "folder"]
        assert not [one.name for folder in folders for one in agent.files.list(folder) if "sizes" in one.name]
    assert "asynchronous generator" not in world.log  # the download that was given up is closed


def test_an_archive_is_a_file_and_is_not_opened(world: World) -> None:
    """What unpacks to terabytes stays as large as it is, and no name of a media type makes a bot read it."""
    ann = world.person("Ann")
    content = b"PK\x03\x04" + b"\0" * 1000
    asked = ann.send_document(ann.chat, "42.zip", content, media_type="image/png", caption="words-with-zip")
    world.reply(ann.chat, "well said", after=asked.id)
    [text] = world.asked("words-with-zip")
    assert f"-1-42.zip: image/png, {len(content)} bytes]" in text


def test_a_file_that_does_not_come_holds_up_nobody(world: World) -> None:
    """The server of the files answers nothing for a while: others are answered, and so is its sender in the end."""
    eve, ann = world.person("Eve"), world.person("Ann")
    world.telegram.fail("file", "hang", seconds=8)
    late = eve.send_document(eve.chat, "slow.bin", b"content", caption="words-with-slow")
    world.shown(lambda: world.telegram.calls("file"), "a download", lambda: None)
    asked = ann.write(ann.chat, "hello")
    world.reply(ann.chat, "well said", after=asked.id)
    assert not world.asked("words-with-slow")
    world.reply(eve.chat, "well said", after=late.id)


def test_a_file_that_is_gone_ends_its_message(world: World) -> None:
    """It is not asked for again and again, which would hold up what its sender, or the group, writes next."""
    eve = world.person("Eve")
    world.telegram.fail("file", "server_error", status=404, times=50)
    try:
        asked = eve.send_document(eve.chat, "gone.bin", b"content", caption="words-with-gone")
        world.reply(eve.chat, "cannot be fetched any more", after=asked.id)
        world.reply(eve.chat, "well said", after=asked.id)
    finally:
        world.telegram.clear_faults()


def test_many_files_are_taken_up_to_a_number(world: World) -> None:
    member = world.member()
    uploads = [Upload(f"{number}.txt", b"x", "text/plain") for number in range(10)]
    asked = member.write(member.dm(), "words-with-many", attachments=uploads)
    world.discord_reply(member.dm(), "well said", after=asked.id)
    [text] = world.asked("words-with-many")
    assert text.count("[file inbox/") == 10


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc%2fpasswd", 'a"; filename="x.html', "x.txt;filename*=UTF-8''..%2fx", "CON.txt", "\u202ea"]
)
def test_a_name_on_discord_leads_nowhere(world: World, name: str) -> None:
    member = world.member()
    asked = member.write(member.dm(), "words-with-name", attachments=[Upload(name, b"content", "text/html")])
    world.discord_reply(member.dm(), "well said", after=asked.id)
    found = [line for text in world.asked("words-with-name") for line in text.splitlines() if line.startswith("[file")]
    assert len(found) == 1
    assert re.fullmatch(r"\[file inbox/[0-9a-f]{8}-1-[A-Za-z0-9._-]+: text/html, 7 bytes\]", found[0]), found
    assert ".." not in found[0]


@pytest.mark.parametrize("name", ESCAPES)
def test_an_answer_sends_no_file_from_outside_of_the_workspace(world: World, name: str) -> None:
    ann = world.person("Ann")
    make = "ln -sfn /etc/passwd leak; ln -sfn /etc folder; true"
    world.model(Call("bash", {"command": make}), Say(f"{ESCAPES[name]}\n\nthat was all"))
    asked = ann.write(ann.chat, "send it")
    world.reply(ann.chat, "that was all", after=asked.id)
    world.settle(ann)
    sent = [one.file.content for one in ann.chat.replies if one.file is not None]
    assert not any(b"root:" in content or b"PATH=" in content for content in sent)


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "leak", "folder/passwd", "%2e%2e/x", "\0", "a" * 3000]
)
def test_a_command_sends_no_file_from_outside_of_the_workspace(world: World, path: str) -> None:
    ann = world.person("Ann")
    world.model(Call("bash", {"command": "ln -sfn /etc/passwd leak; ln -sfn /etc folder; true"}), Say("made"))
    asked = ann.write(ann.chat, "make it")
    world.reply(ann.chat, "made", after=asked.id)
    asked = ann.write(ann.chat, f"/files {path}")
    world.reply(ann.chat, "", after=asked.id)
    world.settle(ann)
    sent = [one.file.content for one in ann.chat.replies if one.file is not None]
    assert not any(b"root:" in content for content in sent)


def test_the_folder_of_the_bots_is_of_their_user_alone(world: World) -> None:
    for path in (world.database.parent, *world.database.parent.iterdir()):
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0, path
