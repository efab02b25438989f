"""Markdown as Telegram shows it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.text import TELEGRAM_LIMIT, Entity, TelegramText, telegram_text
from frontends.text.characters import WORD_JOINER, utf16_length


def part(message: TelegramText, at: int) -> str:
    entity = message.entities[at]
    encoded = message.text.encode("utf-16-le")
    return encoded[entity.offset * 2 : (entity.offset + entity.length) * 2].decode("utf-16-le")


def parts(markdown: str) -> list[tuple[str, str]]:
    message = telegram_text(markdown)
    return [(entity.type, part(message, at)) for at, entity in enumerate(message.entities)]


def shown(markdown: str) -> str:
    """The text, with a visible sign where Telegram is kept from finding something."""
    return telegram_text(markdown).text.replace(WORD_JOINER, "¦")


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("plain\nlines\n\nand paragraphs", "plain\nlines\n\nand paragraphs"),
        ("# Head\ntext", "Head\ntext"),
        ("- a\n  - b\n- c", "• a\n  • b\n• c"),
        ("3. a\n4. b\n\n   c", "3. a\n4. b\n\n  c"),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done"),
        ("- - x\n-\n- y", "• • x\n•\n• y"),
        ("> quote\ngoes on\n>> deeper", "quote\ngoes on\ndeeper"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("<b>no</b> &lt;i&gt;", "<b>no</¦b> <i>"),
        ("[a]: https://example.com", "[a]: https://example.com"),
        ("    indented", "indented"),
        ("**unfinished and `code", "**unfinished and `code"),
        ("", "…"),
        ("\u200b \n", "…"),
        ("```\n\n```", "…"),
    ],
)
def test_what_people_read(markdown: str, text: str) -> None:
    assert shown(markdown) == text


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("**b** *i* ~~s~~ `c`", [("bold", "b"), ("italic", "i"), ("strikethrough", "s"), ("code", "c")]),
        ("***both***", [("bold", "both"), ("italic", "both")]),
        ("**one *two***", [("bold", "one two"), ("italic", "two")]),
        ("**a `b` c**", [("bold", "a"), ("code", "b"), ("bold", "c")]),
        ("# `b` c", [("code", "b"), ("bold", "c")]),
        ("****x****", [("bold", "x")]),
        ("> a **b**\n> ```\n> c\n> ```", [("blockquote", "a b\nc"), ("bold", "b"), ("pre", "c")]),
        ("> > a\n>\n> b", [("blockquote", "a\n\nb")]),
        ("> `a`", [("blockquote", "a"), ("code", "a")]),
        ("😀 **b😀**", [("bold", "b😀")]),
        ("[`code` label](https://example.com)", [("text_link", "code label")]),
        ("` `", []),
        ("**&nbsp;**", []),
        ("# &nbsp;x&nbsp;", [("bold", "x")]),
        ("```py\n  x = 1\n```", [("pre", "  x = 1")]),
        ("```py\nunclosed", [("pre", "unclosed")]),
    ],
)
def test_how_it_looks(markdown: str, expected: list[tuple[str, str]]) -> None:
    assert parts(markdown) == expected


def test_the_language_of_code_is_one_word() -> None:
    assert telegram_text("```Py title=x\na\n```").entities[0].language == "py"
    assert telegram_text("```<b>\na\n```").entities[0].language is None


def test_a_table_has_columns_of_equal_width() -> None:
    message = telegram_text("| name | 数 |\n|:--|--:|\n| `a`\\|b | 12345 |\n| 漢字 | **7** |")
    assert message.text == "name │    数\n─────┼──────\na|b  │ 12345\n漢字 │     7"
    assert [entity.type for entity in message.entities] == ["pre"]


def test_a_table_without_room_for_columns_is_complete() -> None:
    rows = [f"| {'x' * (at % 7 * 100)} | {at} |" for at in range(12)]
    message = telegram_text("| a | b |\n|-|-|\n" + "\n".join(rows))
    assert utf16_length(message.text) <= TELEGRAM_LIMIT
    assert all(row.strip("| ") in message.text.replace("│", "|") for row in rows[1:])


@pytest.mark.parametrize(
    "markdown",
    [
        *("@admin", "(@admin)", "**@admin**", "@**admin**", "@`admin`", "\\@admin", "&#64;admin", "é@admin", "/@admin"),
        *(
            "/start",
            "/start@bot",
            "**/start**",
            "/**start**",
            "&#47;start",
            "x /start",
            "> /start",
            "- /start",
            "\\/start",
        ),
        *(
            "#tag",
            "#**tag**",
            "\\#tag",
            "$TAG",
            "\\$TAG",
            "[@admin](https://example.com)",
            "[x](/start)",
            "@\u200badmin",
        ),
        *(
            "tg://user?id=1",
            "[x](tg://user?id=1)",
            "<tg://user?id=1>",
            "tg:**//user?id=1**",
            "ton://x",
            "![x](tg://resolve)",
        ),
        *("https://./@admin", "http://x/@admin /a", "| @admin |\n|-|", "http&#58;//@admin"),
    ],
)
def test_telegram_finds_nothing_in_a_text_but_addresses(markdown: str) -> None:
    message = telegram_text(markdown)
    rest = message.text
    for at, entity in reversed(list(enumerate(message.entities))):
        if entity.type in ("code", "pre") or entity.url == part(message, at):
            start = len(message.text.encode("utf-16-le")[: entity.offset * 2].decode("utf-16-le"))
            rest = rest[:start] + "~" * entity.length + rest[start + entity.length :]
    assert not re.search(r"(?<![A-Za-z0-9_])[@#$]\w|(?<![A-Za-z0-9_/])/\w|(?<!http)(?<!https)://", rest)
    assert all(entity.url is None or not entity.url.startswith("tg") for entity in message.entities)


@pytest.mark.parametrize("markdown", ["a@b.de", "and/or", "https://example.com/@a/b#c", "`@x /y #z`", "3 $ 4"])
def test_what_is_harmless_is_not_changed(markdown: str) -> None:
    assert telegram_text(markdown).text.replace(WORD_JOINER, "¦") == markdown.strip("`")


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("[label](https://example.com/a)", "label"),
        ("[example.com/a](https://example.com/a/)", "example.com/a"),
        ("[google.com](https://evil.com)", "google.com (https://evil.com)"),
        ("[google\u2024com](https://evil.com)", "google\u2024com (https://evil.com)"),
        ("[join](https://t.me/x)", "join (https://t.me/x)"),
        ("[file](src/a.py)", "file (src/a.py)"),
        ("[local](http://localhost:8080)", "local (http://localhost:8080)"),
        ("[x](https://google.com@evil.com)", "x (https://google.com@evil.com)"),
        ("[x](javascript:alert)", "[x](javascript:alert)"),
        ("![picture](https://example.com/a.png)", "picture"),
        ("[![alt](https://a.com/b.png)](https://example.com)", "alt"),
        ("[](https://example.com)", "https://example.com"),
    ],
)
def test_a_link_shows_where_it_leads_if_its_label_says_something_else(markdown: str, text: str) -> None:
    assert shown(markdown) == text


def test_directions_and_what_is_invisible_do_not_reach_people() -> None:
    assert telegram_text("a\u202eb\u2066c\u200bd\u00ade\ufefff\x07g\U000e0041h").text == "abcdefgh"
    assert telegram_text("`a\u202eb`").text == "ab"
    assert telegram_text("&#8238;x\ud800").text == "x\ufffd"
    assert telegram_text("👨\u200d👩").text == "👨\u200d👩"


def test_more_parts_than_telegram_takes_are_plain_and_safe() -> None:
    message = telegram_text("`@a` " * 150)
    assert len(message.entities) == 100
    assert message.text.count("@" + WORD_JOINER) == 50


@pytest.mark.parametrize(
    ("line", "lines", "most"),
    [
        ("- **Name** does `cmd`: [docs](https://example.com/{})", 45, 0),
        ("[it](https://a.de/{}) ", 150, 50),
        ("https://a.de/{} [it](https://b.de/{})", 90, 40),
    ],
)
def test_more_parts_than_telegram_takes_cost_no_address(line: str, lines: int, most: int) -> None:
    """`most`: how many addresses are in the text, because there are more links than Telegram takes."""
    written = [line.replace("{}", str(1000 + number)) for number in range(lines)]
    message = telegram_text("\n".join(written))
    asked = set(re.findall(r"https://[a-z.]+/\d+", "".join(written)))
    shown = set(re.findall(r"\(?https://[a-z.]+/\d+", message.text))
    links = {entity.url for entity in message.entities if entity.type == "text_link"}
    assert asked <= {one.removeprefix("(") for one in shown} | links
    assert sum(one.startswith("(") for one in shown) == most
    assert len(message.entities) == 100


FRAGMENTS = st.sampled_from(
    [
        *(
            "**",
            "*",
            "_",
            "~~",
            "`",
            "```",
            "\n",
            "> ",
            "- ",
            "1. ",
            "# ",
            "[",
            "](",
            "https://a.de/b",
            ")",
            "<",
            ">",
            "|",
            "-|-",
        ),
        *("a", " ", "😀", "@b", "/c", "&nbsp;", "\u200d", "\t", "\\", "\ud800", "| a |\n|---|\n"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=60).map("".join))
def test_telegram_takes_every_message(markdown: str) -> None:
    message = telegram_text(markdown)
    assert message.text.strip() == message.text or message.entities[0].type == "pre"
    assert message.text.strip()
    message.text.encode("utf-16-le")
    around = list[Entity]()
    for at, entity in enumerate(message.entities):
        text = part(message, at)
        assert text.strip()
        assert text == (text.rstrip() if entity.type == "pre" else text.strip())
        while around and end(around[-1]) <= entity.offset:
            around.pop()
        assert all(end(entity) <= end(one) for one in around), "it is inside of another one or beside it"
        assert all(one.type not in ("code", "pre", entity.type) for one in around)
        around.append(entity)
    assert list(message.entities) == sorted(message.entities, key=lambda entity: entity.offset)


def end(entity: Entity) -> int:
    return entity.offset + entity.length
