"""What the pictures of the pages show is what the product shows now: `make pictures` draws them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_client import Approval
from agent_client.cli.chat.approval import approval_menu
from agent_client.cli.chat.questions import asked, question_menu
from agent_client.cli.chat.screen import Menu
from frontends.conversation.requests import card
from frontends.store import StoredRequest

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "docs/pictures"
RULES = [{"permission": "edit", "pattern": "invoices.csv"}]


def written(name: str) -> str:
    return (PICTURES / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.png")), ids=lambda picture: picture.stem)
def test_each_picture_has_its_text_and_a_page(picture: Path) -> None:
    assert picture.with_suffix(".txt").is_file()
    assert any(
        f"(../pictures/{picture.name})" in page.read_text("utf-8") for page in (ROOT / "docs/how-to").glob("*.md")
    )


def test_the_chat_of_a_bot_has_the_words_of_its_cards() -> None:
    approval = StoredRequest(
        "ab12", "bot", "500", "garden", "telegram:1", "s", "approval_1", 1, "approval", "bash", {}, None, RULES,
        "telegram:1", "Ann", None, 9, code="K7", agent="default",
    )  # fmt: skip
    [piece] = card(approval, lambda text: [text])
    shown = written("bots-chat")
    labels = [button.label for row in piece.buttons for button in row]
    assert len(labels) == 5
    for part in ("Allow bash?", "Always would allow", "All are yours.", *(f"[{label}]" for label in labels)):
        assert part in shown, part


def assert_shown(menu: Menu, picture: str) -> None:
    shown = written(picture)
    assert menu.choices
    for part in (*(choice.label for choice in menu.choices), menu.hint):
        assert part in shown, part


def test_an_approval_in_the_terminal_has_the_words_of_its_menu() -> None:
    menu, _ = approval_menu(Approval("s", "a", "c", "edit", {}, None, RULES, "K7", "default"))
    assert_shown(menu, "chat-approval")


def test_a_question_in_the_terminal_has_the_words_of_its_menu() -> None:
    days = {"question": "On which days?", "multi_select": True, "options": [{"label": "Monday"}, {"label": "Friday"}]}
    assert_shown(question_menu(asked(days), 2, 2), "chat-question")
