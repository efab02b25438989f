"""Markdown as Discord shows it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.text import DISCORD_LIMIT, discord_text
from frontends.text.characters import WORD_JOINER, utf16_length


def written(markdown: str) -> str:
    return discord_text(markdown).replace(WORD_JOINER, "¦")


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("plain\nlines\n\nand paragraphs", "plain\nlines\n\nand paragraphs"),
        ("# One\n### Three\n#### Four", "# One\n### Three\n**Four**"),
        ("Head\n===\ntext", "# Head\ntext"),
        ("__b__ _i_ ~~s~~ `c`", "**b** *i* ~~s~~ `c`"),
        ("* a\n    * b\n1) c", "- a\n  - b\n1) c"),
        ("- [ ] open\n- [x] done", "- ☐ open\n- ☑ done"),
        ("> a\nlazy\n>\n> > b\n\nc", "> a\n> lazy\n> \n> b\n\nc"),
        ("> a\n\n> b", "> a\n\n> b"),
        ("> ```\n> a\n> b\n> ```", "> ```\n> a\n> b\n> ```"),
        ("- a\n  ```py\n  b\n  ```", "- a\n  ```py\nb\n```"),
        ("***", "———"),
        ("snake_case 2*3 a|b", "snake\\_case 2\\*3 a\\|b"),
        ("**unfinished and `code", "\\*\\*unfinished and \\`code"),
        ("~~~js\nunclosed", "```js\nunclosed\n```"),
        ("", "…"),
    ],
)
def test_markdown_is_written_again(markdown: str, text: str) -> None:
    assert written(markdown) == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("@everyone @here", "@¦everyone @¦here"),
        ("@**every**one, &#64;here", "@**every**one, @¦here"),
        ("[@every](b)one `@here`", "@¦every (b)one `@¦here`".replace("@¦every ", "@every ")),
        ("<@1> <@!1> <@&1> <#1> &lt;@1>", "<¦@1> <¦@!1> <¦@&1> <¦#1> <¦@1>"),
        ("</cmd:1> <:e:1> <a:e:1> <t:1> &lt;id:x>", "<¦/cmd:1> <¦:e:1> <¦a:e:1> <¦t:1> <¦id:x>"),
        ("discord.gg/x DISCORD.GG/x `discord.com/invite/x`", "discord.¦gg/x DISCORD.¦GG/x `discord.¦com/invite/x`"),
        ("[x](https://discord.gg/x)", "x (<https://discord.¦gg/x>)"),
        ("||spoiler||", "\\|\\|spoiler\\|\\|"),
        ("\\-# small", "\\-# small"),
        ("\\# a\n\\## b\n\\> c\n\\- d\n1\\. e\n\\>>> f", "\\# a\n\\## b\n\\> c\n\\- d\n1\\. e\n\\>>> f"),
        ("-# small\n#tag", "\\-# small\n#tag"),
        ("- \\# a", "- \\# a"),
        ("\\[x](https://evil.com)", "\\[x\\](<https://evil.com>)"),
        ("`` a`b ``", "`a\u02cbb`"),
        ("````\n```\nx\n````", "```\n`¦``\nx\n```"),
        ("```\u202e\na\u202eb\n```", "```\nab\n```"),
        ("```py`\n@x", "\\`\\`\\`py\\`\n@x"),
    ],
)
def test_nothing_notifies_and_nothing_is_forged(markdown: str, text: str) -> None:
    assert written(markdown) == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("https://a.com/x_y.", "<https://a.com/x_y>."),
        ("<https://a.com>", "<https://a.com>"),
        ("[label](https://a.com)", "label (<https://a.com>)"),
        ("[google.com](https://evil.com)", "google.com (<https://evil.com>)"),
        ("[x](<a b>)", "x (a b)"),
        ("[x](a_b)", "x (a\\_b)"),
        ("![alt](https://a.com/b.png)", "alt (<https://a.com/b.png>)"),
        ("<a@b.de>", "a@b.de"),
        ("[a@c.de](mailto:a@b.de)", "a@c.de (mailto:a@b.de)"),
    ],
)
def test_a_link_shows_where_it_leads(markdown: str, text: str) -> None:
    assert written(markdown) == text


def test_a_table_is_code() -> None:
    assert written("| a | bb |\n|---|:-:|\n| ccc | `d` |") == "```\na   │ bb\n────┼───\nccc │ d\n```"


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
        *("a", " ", "@", "everyone", "@here", "<@1>", "discord", ".gg/a", "&lt;", "\\", "\ud800", "\u200b", "@&1"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=60).map("".join))
def test_discord_takes_every_message(markdown: str) -> None:
    text = discord_text(markdown)
    assert 0 < utf16_length(text) <= DISCORD_LIMIT
    assert text == text.strip()
    assert not re.search(r"@(everyone|here)|<(@|#|/|:|a:|t:|id:)|discord\.gg", text)
    assert not re.search(r"(?<!\\)\]\(", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL))
    assert text.count("```") % 2 == 0
    text.encode()
