"""What a plugin declares it needs, read as PEP 723 says."""

from __future__ import annotations

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.skills.dependencies import requirements_of

HEAD, END = "# /// script\n", "# ///\n"


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import x\n", ()),
        (f"{HEAD}# a = 1\n{END}", ()),
        (f"#!/bin/x\n{HEAD}# dependencies = ['b', 'a', 'b']\n{END}# more\n", ("a", "b")),
        (f"{HEAD}#\n# dependencies = [\n#   'a',\n#\n# ]\n{END}import a\n", ("a",)),
        (f"{HEAD}# dependencies = ['a']\n{END}".replace("\n", "\r\n"), ("a",)),
        (f"# /// other\n# x = 1\n{END}\n{HEAD}# dependencies = ['a']\n{END}", ("a",)),
        (
            f"{HEAD}# dependencies = ['a [b,c] >= 1 , <2; python_version > \"3\"']\n{END}",
            ('a [b,c] >= 1 , <2; python_version > "3"',),
        ),
        (f"{HEAD}# dependencies = ['a{' ' * 190}==1']\n{END}", (f"a{' ' * 190}==1",)),
    ],
)
def test_what_is_declared(code: str, wanted: tuple[str, ...]) -> None:
    assert requirements_of(code.encode(), "p.py") == wanted


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (HEAD, "has no end"),
        (HEAD + END, "has no end"),
        (f"{HEAD}# a = 1\n\n{END}", "has no end"),
        (f"{HEAD}# a = 1\n{END}\n{HEAD}# a = 1\n{END}", "more than one"),
        (f"{HEAD}# a = 1\n{END}# /// script\n# b = 1\n{END}", "is not TOML"),
        (f"{HEAD}# a = {'[' * 4000}\n{END}", "is not TOML"),
        (f"{HEAD}# a = {'1' * 5000}\n{END}", "is not TOML"),
        (f"{HEAD}# dependencies = [0x{'f' * 5000}]\n{END}", "one is of the type int"),
        (f"{HEAD}# dependencies = ['a', ['b']]\n{END}", "one is of the type list"),
        (f"{HEAD}# a = '{'x' * 9000}'\n{END}", "longer than 8,192 characters"),
        (f"{HEAD}# dependencies = ['a{' ' * 200}==1']\n{END}", "of at most 200 characters"),
        (f"{HEAD}# dependencies = ['a b']\n{END}", "must be a name with versions"),
    ],
)
def test_a_fault_is_named(code: str, told: str) -> None:
    with pytest.raises(ToolFailure, match=told):
        requirements_of(code.encode(), "p.py")
