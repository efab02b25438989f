"""The front matter: good and bad, and whatever anybody may put there."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.skills.library import front_matter
from agent_runtime.skills.library.front_matter import FrontMatter, InvalidPackage


def matter(*lines: str) -> str:
    return "\n".join(("---", *lines, "---", "body"))


GOOD = {
    "plain": ("name: pdf", "description: Fill forms."),
    "a colon in it": ("name: pdf", "description: Fill forms: quickly."),
    "quoted": ("name: 'pdf'", 'description: "Fill: forms."'),
    "folded": ("name: pdf", "description: >-", "  Fill", "  forms."),
    "literal": ("name: pdf", "description: |", "  Fill", "  forms."),
    "on several lines": ("name: pdf", "description: Fill", "  forms."),
    "further keys": ("license: MIT", "name: pdf", "metadata:", "  name: x", "description: Fill forms.", "x-y: [1, 2]"),
    "further keys that are no YAML": ("name: pdf", "hooks: {{ a: b", "\tfoo: *x", "description: Fill forms."),
    "a comment": ("# about", "name: pdf # short", "description: Fill forms."),
    "a number for a name": ("name: 2048", "description: Fill forms."),
    "a truth for a description": ("name: pdf", "description: yes"),
    "stars": ("name: pdf", "description: **Fill** forms."),
    "spaces behind the fence": ("name: pdf", "description: Fill forms.  "),
    "invisible signs": ("name: pdf", "description: Fill\u200b\U000e0041\ufe0f \u2028 forms.\u202e"),
    "escapes": ("name: pdf", r'description: "Fill\x00\u202e\nforms.\ud800"'),
}
SAID = {
    "a colon in it": "Fill forms: quickly.",
    "quoted": "Fill: forms.",
    "a truth for a description": "yes",
    "stars": "**Fill** forms.",
}


@pytest.mark.parametrize("case", GOOD)
def test_what_is_taken(case: str) -> None:
    found = front_matter.parse(matter(*GOOD[case]))
    name = "2048" if "number" in case else "pdf"
    assert found == FrontMatter(name, SAID.get(case, "Fill forms."))


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (("description: x",), "name: is missing"),
        (("name: pdf",), "description: is missing"),
        (("name: pdf", "description:"), "description: is empty"),
        (("name: pdf", 'description: "\\u200b "'), "description: is empty"),
        (("name:", "description: x"), "name: is missing"),
        (("name: PDF", "description: x"), "name: must be lower-case"),
        (("name: a--b", "description: x"), "name: must be lower-case"),
        (("name: -a", "description: x"), "name: must be lower-case"),
        (("name: ../a", "description: x"), "name: must be lower-case"),
        (("name: a b", "description: x"), "name: must be lower-case"),
        (("name: é", "description: x"), "name: must be lower-case"),
        ((f"name: {'a' * 65}", "description: x"), "name: must be lower-case"),
        (("name: a", "name: b", "description: x"), "name: is there twice"),
        (("name: a", "description:", "  - x"), "description: must be one text"),
        (("name: a", "description: >x", "  - y: z"), "description: while scanning"),
    ],
)
def test_what_is_refused_says_which_field(lines: tuple[str, ...], fault: str) -> None:
    with pytest.raises(InvalidPackage, match=f"^{re.escape(fault)}"):
        front_matter.parse(matter(*lines))


@pytest.mark.parametrize("text", ["", "# PDF", "---", "---\nname: a\ndescription: b\n", " ---\nname: a\n---\n"])
def test_without_two_fences_it_is_none(text: str) -> None:
    with pytest.raises(InvalidPackage, match="must begin with front matter"):
        front_matter.parse(text)


LONG = {
    "plain": ("word " * 300, "word"),
    "plain, very long": ("x" * 4000, "xxx"),
    "no YAML": ("x: y " * 1000, "x: y x"),
    "literal": ("|\n" + "  word\n" * 1000, "word word"),
    "in quotes": ('"' + "word " * 1000 + '"', "word word"),
    "in single quotes": ("'" + "word " * 1000 + "'", "word word"),
    "in quotes, without blanks": ('"' + "报" * 4000 + '"', "报报"),
    **{f"escapes {n}": ('"' + "-" * n + r"\U00004e00" * 400 + '"', "-" * n + "一") for n in range(10)},
    **{f"backslashes {n}": ('"' + "-" * n + r"x\\" * 2000 + '"', "-" * n + "x\\x") for n in range(3)},
    **{f"doubled quotes {n}": ("'" + "-" * n + "x''" * 2000 + "'", "-" * n + "x'x") for n in range(3)},
}


@pytest.mark.parametrize("case", LONG)
def test_a_long_description_is_cut(case: str) -> None:
    written, begin = LONG[case]
    found = front_matter.parse(matter("name: a", f"description: {written}"))
    assert found.description.startswith(begin)
    assert found.description.endswith("…")
    assert len(found.description) <= front_matter.MAX_DESCRIPTION_LENGTH


def test_line_ends_of_another_system() -> None:
    text = matter("name: a", "description: b").replace("\n", "\r\n")
    assert front_matter.parse(text) == FrontMatter("a", "b")
    assert front_matter.body(text) == "body"


def test_the_body_is_what_stands_below() -> None:
    assert front_matter.body("---\nname: a\n---\n\n# A\n\n---\nb\n") == "# A\n\n---\nb"


names = st.from_regex(r"[a-z0-9]{1,20}(-[a-z0-9]{1,20})?", fullmatch=True)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
others = st.dictionaries(
    st.sampled_from(["license", "metadata", "allowed-tools", "version"]),
    st.one_of(words, st.lists(words, max_size=3), st.dictionaries(st.sampled_from(["name", "a"]), words, max_size=2)),
)


@given(names, words, others, st.sampled_from([None, "'", '"', "|", ">"]), st.integers(20, 200))
def test_what_yaml_wrote_is_read_back(name: str, said: str, other: dict[str, object], style: str, width: int) -> None:
    written = yaml.safe_dump({**other, "name": name, "description": said}, default_style=style, width=width)
    try:
        found = front_matter.parse(f"---\n{written}---\n")
    except InvalidPackage:
        assert not front_matter.one_line(said) or len(written) > front_matter.MAX_DESCRIPTION_LENGTH
        return
    assert found == FrontMatter(name, front_matter.one_line(said))


@given(st.text(max_size=300), st.text(max_size=300))
def test_whatever_stands_there_is_harmless_or_refused(name: str, said: str) -> None:
    for text in (f"---\nname: {name}\ndescription: {said}\n---\n", f"---\nname: a\ndescription: {said}\n---\n", said):
        try:
            found = front_matter.parse(text)
        except InvalidPackage:
            continue
        assert front_matter.NAME_PATTERN.fullmatch(found.name)
        assert 0 < len(found.description) <= front_matter.MAX_DESCRIPTION_LENGTH
        assert found.description.isprintable()
