"""`python -m scripts.chat_picture`: play a chat with an agent on Telegram's double, and draw it into docs/pictures.

The text of the chat is written beside the picture, so that a test finds what it does not show any more.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from html import escape
from itertools import pairwise
from pathlib import Path

from agent_testing import Call, Say
from agent_testing.telegram import Entity, Message
from tests.e2e.frontends.whole.day import SECONDS, OnTelegram, waited
from tests.e2e.frontends.whole.world import WORKSPACE, World

PICTURE = Path("docs/pictures/bots-chat.png")
BROWSERS = ("chromium", "chromium-headless-shell")
INVOICES = "customer,amount,due\nAcme,1200.00,2026-10-31\nBolt,310.50,2026-11-12\nCoil,99.00,2027-01-15\n"
_OVERDUE = [
    Call("bash", {"command": "awk -F, '$3 < \"2026-11-25\"' invoices.csv"}),
    Say("Two invoices are overdue:\n\n- **Acme**: 1,200.00, since 31 October\n- **Bolt**: 310.50, since 12 November"),
]
_RULES = {"rules": [{"permission": "bash", "pattern": "sh remind.sh *", "action": "ask"}]}
_REMIND = [Call("bash", {"command": "sh remind.sh Acme 1200.00"}, text="I have a script for that."), Say("Done.")]
_ASK = [
    Call(
        "question",
        {
            "questions": [
                {"question": "How often shall I look?", "options": [{"label": "Daily"}, {"label": "On Mondays"}]}
            ]
        },
    ),
    Say("I will look on Mondays."),
]
_TAGS = {"bold": "b", "italic": "i", "strikethrough": "s", "code": "code", "pre": "pre", "blockquote": "blockquote"}
_STYLE = """
body { margin: 0; width: 430px; background: #d5e3ee; font: 15px/1.4 'DejaVu Sans', 'Noto Color Emoji', sans-serif; }
header { background: #517da2; color: white; padding: 14px 18px; font-weight: bold; }
header small { display: block; font-weight: normal; opacity: .8; }
main { display: flex; flex-direction: column; gap: 8px; padding: 14px; }
.message { max-width: 82%; box-sizing: border-box; border-radius: 12px; padding: 8px 12px; background: white;
  align-self: flex-start; white-space: pre-wrap; overflow-wrap: anywhere; }
.mine { background: #e3fdd0; align-self: flex-end; }
.buttons { display: flex; gap: 4px; width: 82%; margin-top: -4px; }
.buttons span { flex: 1; text-align: center; background: #8aa9c2; color: white; border-radius: 8px; padding: 7px 2px;
  font-size: 13px; }
code, pre { font: 13px 'DejaVu Sans Mono', monospace; color: #24466b; margin: 0; white-space: pre-wrap;
  display: inline; }
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="picture-") as folder, World(Path(folder)) as world:
        messages = play(world)
        page = Path(folder) / "chat.html"
        page.write_text(draw(messages))
        PICTURE.with_suffix(".txt").write_text("\n".join(map(written_down, messages)))
        photograph(page, PICTURE.resolve(), 430, 1130)


def play(world: World) -> list[Message]:
    """Return the messages of a chat in which a person asks, is asked, and may allow a call."""
    ann = OnTelegram(world, "Ann")
    script = world.provider.script
    (world.agent_folder / "permissions.yaml").write_text(json.dumps(_RULES))
    world.host.mesh.workspaces.stop(WORKSPACE)
    world.host.mesh.workspaces.start(WORKSPACE)  # which reads the rules
    files = world.host.mesh.agent(WORKSPACE).files
    files.write("invoices.csv", INVOICES)
    files.write("remind.sh", "echo sent\n")
    world.configure([f"telegram:{ann.user.id}"])
    world.start_bots()
    world.wait_until_connected()
    script.replace(_OVERDUE)
    ann.says("Which invoices are overdue?", "since 12 November")
    script.replace(_ASK)
    card = ann.says("Keep an eye on them", "Press a button")
    ann.user.press(card, "On Mondays", seconds=SECONDS)
    ann.found("look on Mondays")
    script.replace(_REMIND)
    card = ann.says("And remind Acme, please", "Allow bash?")
    waited(world.telegram, lambda: card.buttons or None)
    return [one for one in ann.user.chat.messages if not one.deleted]


def draw(messages: Iterable[Message]) -> str:
    """Return the chat as a page."""
    shown = "".join(_bubble(message) for message in messages)
    title = "<header>garden<small>bot</small></header>"
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>{title}<main>{shown}</main>"


def written_down(message: Message) -> str:
    """Return a message and its buttons as text."""
    lines = [f"{'' if message.sender.is_bot else '> '}{message.text}"]
    lines += [" ".join(f"[{button.label}]" for button in row) for row in message.content.buttons]
    return "".join(f"{line}\n" for line in lines)


def _bubble(message: Message) -> str:
    kind = "message" if message.sender.is_bot else "message mine"
    rows = "".join(
        f"<div class=buttons>{''.join(f'<span>{escape(button.label)}</span>' for button in row)}</div>"
        for row in message.content.buttons
    )
    return f"<div class='{kind}'>{marked(message.text, message.content.entities)}</div>{rows}"


def marked(text: str, entities: Iterable[Entity]) -> str:
    """Return HTML of a text with its entities, whose offsets are UTF-16 code units."""
    units = text.encode("utf-16-le")
    tags: dict[int, list[str]] = {}
    for entity in entities:
        tag = _TAGS.get(entity.type, "span")
        tags.setdefault(entity.offset, []).append(f"<{tag}>")
        tags.setdefault(entity.end, []).insert(0, f"</{tag}>")
    cuts = sorted({0, len(units) // 2, *tags})
    pieces = ["".join(tags.get(0, []))]
    for first, last in pairwise(cuts):
        pieces.append(escape(units[2 * first : 2 * last].decode("utf-16-le")) + "".join(tags.get(last, [])))
    return "".join(pieces)


def photograph(page: Path, picture: Path, width: int, height: int) -> None:
    """Draw a page with the browser of the tests. Raises FileNotFoundError without one."""
    picture.parent.mkdir(parents=True, exist_ok=True)
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=2")
    for browser in BROWSERS:
        command = (browser, *options, f"--window-size={width},{height}", f"--screenshot={picture}", page.as_uri())
        try:
            subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            continue
        return
    raise FileNotFoundError("no Chromium is installed: scripts/system-packages.sh browser installs it")


if __name__ == "__main__":
    sys.exit(main())
