"""How the fake Telegram reads parse modes, and what it finds in a plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_testing.telegram.api_error import ApiError
from agent_testing.telegram.formatting import detect, formatted_text, length
from agent_testing.telegram.model import Account

ANN = Account(id=1001, name="Ann")
Found = list[tuple[str, int, int]]


def parsed(mode: str, source: str) -> tuple[str, Found]:
    content = formatted_text(source, mode, [], {ANN.id: ANN})
    return content.text, [(one.type, one.offset, one.length) for one in content.entities]


def fault(mode: str, source: str) -> str:
    with pytest.raises(ApiError) as refused:
        formatted_text(source, mode, [], {})
    assert refused.value.code == 400
    return refused.value.description.removeprefix("Bad Request: can't parse entities: ")


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("*a _b_ c*", "a b c", [("bold", 0, 5), ("italic", 2, 1)]),
        ("_a __b___", "a b", [("italic", 0, 3), ("underline", 2, 1)]),
        ("~a~ ||b||", "a b", [("strikethrough", 0, 1), ("spoiler", 2, 1)]),
        ("😀 *😀*", "😀 😀", [("bold", 3, 2)]),
        (r"1\. \*no\*", "1. *no*", []),
        ("`a*b`", "a*b", [("code", 0, 3)]),
        ("```\na\n```", "a", [("pre", 0, 1)]),
        ("```py\nx = [1]\n```", "x = [1]", [("pre", 0, 7)]),
        ("*a `b` c*", "a b c", [("bold", 0, 5), ("code", 2, 1)]),
        ("[a](https://a.example/b)", "a", [("text_link", 0, 1)]),
        ("[a](tg://user?id=1001)", "a", [("text_mention", 0, 1)]),
        ("[a](tg://user?id=5)", "a", []),
        ("[a](nonsense)", "a", []),
        (">a\n>b\nc", "a\nb\nc", [("blockquote", 0, 4)]),
        (">a\n>b||\nc", "a\nb\nc", [("expandable_blockquote", 0, 4)]),
        ("![👍](tg://emoji?id=5)", "👍", [("custom_emoji", 0, 2)]),
        ("**", "", []),
    ],
)
def test_markdown_v2(source: str, text: str, entities: Found) -> None:
    assert parsed("MarkdownV2", source) == (text, entities)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("a. b", "Character '.' is reserved and must be escaped with the preceding '\\'"),
        ("a > b", "Character '>' is reserved and must be escaped with the preceding '\\'"),
        ("ü*a", "Can't find end of Bold entity at byte offset 2"),
        ("_a*b_", "Can't find end of Italic entity at byte offset 4"),
        ("__a", "Can't find end of Underline entity at byte offset 0"),
        ("||a", "Can't find end of Spoiler entity at byte offset 0"),
        ("`a", "Can't find end of Code entity at byte offset 0"),
        ("```a", "Can't find end of Pre entity at byte offset 0"),
        ("```a\nb", "Can't find end of PreCode entity at byte offset 0"),
        ("[a", "Can't find end of TextUrl entity at byte offset 0"),
        ("[a](b", "Can't find end of a URL at byte offset 4"),
        (">*a\nb*", "Can't find end of Bold entity at byte offset 1"),
        ("![a]", "Custom emoji entity must contain a tg://emoji URL"),
        ("![a](https://emoji?id=5)", "Custom emoji URL must have scheme tg"),
        ("![a](tg://user?id=5)", 'Custom emoji URL must have host "emoji"'),
        ("![a](tg://emoji)", "Custom emoji URL must have an emoji identifier"),
        ("![a](tg://emoji?id=05)", "Invalid custom emoji identifier specified"),
    ],
)
def test_markdown_v2_that_is_refused(source: str, reason: str) -> None:
    assert fault("MarkdownV2", source) == reason


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("<b>a <i>b</i></b>", "a b", [("bold", 0, 3), ("italic", 2, 1)]),
        ("a &lt;b&gt; &amp;&quot; &#38; &#x26; &nbsp;", 'a <b> &" & & &nbsp;', []),
        ('<pre><code class="language-py">x</code></pre>', "x", [("pre", 0, 1)]),
        ("<pre><code>x</code></pre>", "x", [("pre", 0, 1)]),
        ('<code class="language-py">x</code>', "x", [("code", 0, 1)]),
        ("<a href='https://a.example'>a</a>", "a", [("text_link", 0, 1)]),
        ("<a>a.example</a>", "a.example", [("text_link", 0, 9)]),
        ('<span class="tg-spoiler">a</span><tg-spoiler>b</tg-spoiler>', "ab", [("spoiler", 0, 1), ("spoiler", 1, 1)]),
        ("<blockquote>a</blockquote>", "a", [("blockquote", 0, 1)]),
        ("<blockquote expandable>a</blockquote>", "a", [("expandable_blockquote", 0, 1)]),
        ('<tg-emoji emoji-id="5">👍</tg-emoji>', "👍", [("custom_emoji", 0, 2)]),
    ],
)
def test_html(source: str, text: str, entities: Found) -> None:
    assert parsed("HTML", source) == (text, entities)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("<b>a", 'Can\'t find end tag corresponding to start tag "b"'),
        ("a <c", "Unclosed start tag at byte offset 2"),
        ("<p>a</p>", 'Unsupported start tag "p" at byte offset 0'),
        ("<b =1>", 'Empty attribute name in the tag "b" at byte offset 0'),
        ("<b x=", 'Unclosed start tag "b" at byte offset 0'),
        ("<b x='1>", "Unclosed start tag at byte offset 0"),
        ("<b x", "Unclosed start tag at byte offset 0"),
        ("<b x=1,2>", "Unexpected end of name token at byte offset 5"),
        ("<span>a</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("</b>", "Unexpected end tag at byte offset 0"),
        ("<b>a</b", "Unclosed end tag at byte offset 4"),
        ("<b>a</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
    ],
)
def test_html_that_is_refused(source: str, reason: str) -> None:
    assert fault("html", source) == reason


def test_markdown_of_old_bots() -> None:
    text, entities = parsed("Markdown", r"*a* _b_ `c` ```py d``` [e](https://e.example) \*f")
    assert text == "a b c d e *f"
    assert entities == [("bold", 0, 1), ("italic", 2, 1), ("code", 4, 1), ("pre", 6, 1), ("text_link", 8, 1)]
    for source, at in (("a_b", 1), ("```a", 0), ("[a", 0)):
        assert fault("Markdown", source) == f"Can't find end of the entity starting at byte offset {at}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ask @ann_x now", [("mention", 4, 6)]),
        ("mail a@b.example", [("email", 5, 11)]),
        ("/new and /stop@helper_bot", [("bot_command", 0, 4), ("bot_command", 9, 16)]),
        ("and/or a/b", []),
        ("see README.md, or https://a.example/b?c.", [("url", 4, 9), ("url", 18, 21)]),
        ("version 1.2 of e.g. this", []),
        ("#tag #1 $USD", [("hashtag", 0, 4), ("cashtag", 8, 4)]),
        ("😀 @ann_x", [("mention", 3, 6)]),
    ],
)
def test_what_is_found_in_a_plain_text(text: str, found: Found) -> None:
    assert [(one.type, one.offset, one.length) for one in detect(text, [])] == found


def test_nothing_is_found_in_code_and_links() -> None:
    content = formatted_text("`@ann` [@ann](https://a.example)", "MarkdownV2", [], {})
    assert content.detected == []


def test_blanks_around_a_text_are_removed_with_their_part_of_entities() -> None:
    assert parsed("HTML", "  <b> a </b> <i> </i>") == ("a", [("bold", 0, 1)])


@given(
    st.sampled_from(["MarkdownV2", "HTML", "Markdown"]),
    st.text(st.sampled_from('*_~|`[]()<>/!\\ab ="&;\n😀'), max_size=30),
)
def test_any_text_is_read_or_refused(mode: str, source: str) -> None:
    try:
        content = formatted_text(source, mode, [], {})
    except ApiError:
        return
    assert all(0 <= one.offset < one.end <= length(content.text) for one in content.entities)


@given(st.text(max_size=40))
def test_an_escaped_text_is_itself(text: str) -> None:
    clean = "".join(character for character in text if character.isprintable())
    escaped = "".join(f"\\{character}" if "\0" < character < "\x7f" else character for character in clean)
    assert formatted_text(escaped, "MarkdownV2", [], {}).text == clean.strip()
