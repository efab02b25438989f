"""`python -m scripts.terminal_picture`: talk to an agent in a terminal, and draw its screens into docs/pictures.

The text of each is written beside its picture, so that a test finds what it does not show any more.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.client.chat.conftest import chat_command
from tests.e2e.client.chat.terminal import Terminal
from tests.integration.host.live import Host

from .chat_picture import INVOICES, photograph

PICTURES = Path("docs/pictures")
WORKSPACE = "garden"
COLUMNS = 84
ROWS = 44
CELL_WIDTH = 9.03
LINE_HEIGHT = 17
MARGIN = 20
"""Pixels, with the font below."""
_MODELS = """
providers: {{upstream: {{base_url: "{url}", api_key_env: UPSTREAM_KEY}}}}
models:
  default: {{provider: upstream, model: large-2, context_limit: 200000, pricing: {{input: 2, output: 8}}}}
"""
_RULES = {"rules": [{"permission": "edit", "pattern": "*", "action": "ask"}]}
_OVERDUE = Call("bash", {"command": "awk -F, '$3 < \"2026-11-25\"' invoices.csv"})
_EDIT = {"path": "invoices.csv", "old_string": "Acme,1200.00,2026-10-31", "new_string": "Acme,1200.00,2026-12-31"}
_QUESTIONS = [
    {
        "question": "How shall I remind them?",
        "header": "Reminder",
        "options": [{"label": "By mail", "description": "to the address of the invoice"}, {"label": "By post"}],
    },
    {
        "question": "On which days shall I look again?",
        "header": "Days",
        "multi_select": True,
        "options": [
            {"label": "Monday", "description": "when the bank has booked the weekend"},
            {"label": "Wednesday"},
            {"label": "Friday", "description": "before the week ends"},
        ],
    },
]
_TABLE = """二件です。💴

| 取引先 | 金額 | 期限 |
|---|---:|---|
| Acme | 1,200.00 | 10月31日 |
| Bolt | 310.50 | 11月12日 |
"""
_STYLE = f"""
body {{ margin: 0; background: #292929; color: #c5c8c6; }}
pre {{ margin: {MARGIN}px; font: 15px/{LINE_HEIGHT}px 'DejaVu Sans Mono', 'Noto Color Emoji', 'VL Gothic'; }}
i {{ display: inline-block; width: {2 * CELL_WIDTH}px; height: {LINE_HEIGHT}px; vertical-align: top;
  font-size: 17px; font-style: inherit; text-align: center; }}
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="picture-") as name, ScriptedProvider() as provider:
        folder = Path(name)
        with house(folder, provider) as host:
            settle(host)
            for number, (picture, play) in enumerate(SCENES.items()):
                place = folder / str(number)
                place.mkdir()
                command = [*chat_command(host, place), "-w", WORKSPACE]
                own = {"HOME": str(place), "TERM": "tmux-256color"}
                with Terminal(command, own, place, columns=COLUMNS, rows=ROWS) as terminal:
                    terminal.see("Ctrl-D leaves", "@ for files")
                    play(terminal, provider)
                    save(terminal, PICTURES / picture, place / "screen.html")


def house(folder: Path, provider: ScriptedProvider) -> Host:
    models = folder / "models.yaml"
    models.write_text(_MODELS.format(url=provider.url))
    return Host(folder / "mesh", MESH_MODELS=models, UPSTREAM_KEY="sk-1", MESH_STOP_GRACE=2)


def settle(host: Host) -> None:
    """Start an agent that has invoices, and asks before it changes them."""
    made = host.mesh.workspaces.create(WORKSPACE)
    home = Path(made.data_dir or "")
    home.mkdir(parents=True, exist_ok=True)
    (home / "permissions.yaml").write_text(json.dumps(_RULES))
    host.mesh.workspaces.start(WORKSPACE)
    host.mesh.agent(WORKSPACE).files.write("invoices.csv", INVOICES)


def play_approval(terminal: Terminal, provider: ScriptedProvider) -> None:
    found = Say("Two are overdue:\n\n- **Acme**: 1,200.00, since 31 October\n- **Bolt**: 310.50, since 12 November")
    provider.script.replace([_OVERDUE, found, Call("edit", _EDIT, text="I move the date.")])
    terminal.say("Which invoices are overdue?")
    terminal.see("since 12 November", "Message, / for commands")
    terminal.say("Acme may pay until the end of the year")
    terminal.see("Allow edit?", "No, and tell the agent why")


def play_question(terminal: Terminal, provider: ScriptedProvider) -> None:
    provider.script.replace([Call("question", {"questions": _QUESTIONS}, text="Two things before I begin.")])
    terminal.say("Keep an eye on the invoices")
    terminal.see("How shall I remind them?")
    terminal.press("1", "Enter")
    terminal.see("On which days")
    terminal.press("Space", "Down", "Down", "Space")
    terminal.see("3. ◉ Friday")


def play_text(terminal: Terminal, provider: ScriptedProvider) -> None:
    provider.script.replace([Say(_TABLE)])
    terminal.type("未払いの請求書を表にしてください。")
    terminal.press("M-Enter")
    terminal.type("期限も書いてください。")
    terminal.see("期限も書いてください。")
    terminal.press("Enter")
    terminal.see("11月12日", "Message, / for commands")
    terminal.paste("Thank you. As Python, please:\n\ndef overdue(invoices, today):")
    terminal.see("def overdue")


SCENES: Mapping[str, Callable[[Terminal, ScriptedProvider], None]] = {
    "chat-approval.png": play_approval,
    "chat-question.png": play_question,
    "chat-text.png": play_text,
}


def save(terminal: Terminal, picture: Path, page: Path) -> None:
    """Draw what is on the screen, and write it down beside the picture."""
    screen = terminal.screen(colours=True).strip("\n")
    shown = Text.from_ansi(screen)
    page.write_text(draw(shown))
    lines = shown.plain.rstrip().split("\n")
    picture.with_suffix(".txt").write_text("".join(f"{line.rstrip()}\n" for line in lines))
    photograph(page, picture.resolve(), round(COLUMNS * CELL_WIDTH) + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN)


def draw(screen: Text) -> str:
    """Return the screen as a page. Wide characters get two cells whatever their font says."""
    console = Console(record=True, file=StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor")
    console.print(screen, no_wrap=True, crop=False, overflow="ignore")
    body = console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format="{code}")
    cells = "".join(f"<i>{char}</i>" if cell_len(char) == 2 else char for char in body)
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style><pre>{cells}</pre>"


if __name__ == "__main__":
    sys.exit(main())
