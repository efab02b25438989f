"""What docstrings of three styles say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.skills.worker.schema.docstring import parse

PLAIN = """Count the words of a text.

    Not for binary files:
      - really
    """

GOOGLE = """
    Count the words of a text.

    A second paragraph.

    Args:
        path: The file, relative
            to the workspace.
        at_least (int, optional): Shortest word: that counts.
        pair (tuple[int, str]):
            Below.

            And after a gap.
        *rest: Others.
        **more (Callable[[int], str]): Even more.
        silent:

    Returns:
        path: not an argument
    """

NUMPY = """Count the words of a text.

    A second paragraph.

    Parameters
    ----------
    path : str
        The file, relative
        to the workspace.
    at_least : int, optional
        Shortest word: that counts.
    left, right : {"a", "b"}
        Both.
    *rest
        Others.
    silent : str

    Returns
    -------
    path : str
        Not an argument.
    """

SPHINX = """Count the words of a text.

    A second paragraph. See :class:`Text`.

    :param path: The file, relative
        to the workspace.
    :type path: str
    :param int at_least: Shortest word: that counts.
    :keyword dict[str, int] left: Both.
    :param silent:
    :returns: path: not an argument
    :raises KeyError: never
    """

ABOUT = "Count the words of a text.\n\nA second paragraph."
FILE = {"path": "The file, relative to the workspace.", "at_least": "Shortest word: that counts."}


@pytest.mark.parametrize(
    ("text", "about", "arguments"),
    [
        (None, "", {}),
        ("", "", {}),
        ("One line.", "One line.", {}),
        (PLAIN, "Count the words of a text.\n\nNot for binary files:\n  - really", {}),
        (
            GOOGLE,
            ABOUT,
            {**FILE, "pair": "Below. And after a gap.", "rest": "Others.", "more": "Even more."},
        ),
        (NUMPY, ABOUT, {**FILE, "left": "Both.", "right": "Both.", "rest": "Others."}),
        (SPHINX, ABOUT + " See :class:`Text`.", {**FILE, "left": "Both."}),
        (
            "Do it.\n\n:param x: First.\n:parameter y: Second.\n\nLater words.",
            "Do it.",
            {"x": "First.", "y": "Second."},
        ),
        ("Do it.\n\nArguments:\n  x: First.\nLater words.\n  y: none", "Do it.", {"x": "First."}),
        ("Do it.\n\nKeyword Args:\n  x: First.\n\nNote:\n  y: none", "Do it.", {"x": "First."}),
        (
            "Do it.\n\nArgs:\n  x: First.\n\nOther Parameters\n----------------\ny\n  Second.",
            "Do it.",
            {"x": "First.", "y": "Second."},
        ),
        ("\nArgs:\n  x: First.", "", {"x": "First."}),
        ("Returns\nwhat it finds.", "Returns\nwhat it finds.", {}),
        ("Args: are listed nowhere.", "Args: are listed nowhere.", {}),
        ("Do it.\n\nArgs:\n\n  x: First.", "Do it.", {"x": "First."}),
        ("Do it.\n\nArgs:", "Do it.", {}),
    ],
)
def test_what_a_docstring_says(text: str | None, about: str, arguments: dict[str, str]) -> None:
    doc = parse(text)
    assert doc.about == about
    assert doc.arguments == arguments


LINES = ["Args:", "Parameters", "----------", ":param x: y", "  x: y", "x : int", "Returns:", "", "    more", "word"]


@given(st.lists(st.sampled_from(LINES)).map("\n".join) | st.text())
def test_any_text_is_read(text: str) -> None:
    doc = parse(text)
    assert all(name.isidentifier() or not name.isascii() or name[0].isdigit() for name in doc.arguments)
