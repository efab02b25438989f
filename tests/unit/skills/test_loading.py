from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_runtime.skills.worker.loading import Unloadable, explain_error, load_plugin

SKILL = """
@skill(name="{name}", description="d")
def {name}():
    return "{name}"
"""


@pytest.fixture(autouse=True)
def clean_modules() -> Iterator[None]:
    """Plugins are imported into the process of the test."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def plugin(folder: Path, code: str, name: str = "plug_in.py") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    return path


def test_the_decorator_is_there_with_and_without_an_import(tmp_path: Path) -> None:
    bare = plugin(tmp_path, SKILL.format(name="one"))
    assert [one.name for one in load_plugin(bare).skills] == ["one"]
    imported = plugin(tmp_path, "from agent_runtime.skills import skill\n" + SKILL.format(name="two"), "other.py")
    assert [one.name for one in load_plugin(imported).skills] == ["two"]


def test_a_package_may_hold_several(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    plugin(package, "from agent_runtime.skills import skill\n" + SKILL.format(name="deep"), "inner.py")
    plugin(package, "from . import inner\n" + SKILL.format(name="top"), "__init__.py")
    assert [one.name for one in load_plugin(package).skills] == ["deep", "top"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = 1\ny = x / 0\n", "plug_in.py line 2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "plug_in.py line 1: SyntaxError: invalid syntax"),
        ("import no_such_module\n", "plug_in.py line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "def a():\n    raise ValueError\ndef b():\n    a()\nb()\n",
            "plug_in.py line 5, plug_in.py line 4 in b, plug_in.py line 2 in a: ValueError",
        ),
        ("import sys\nsys.exit(3)\n", "plug_in.py line 2: it called exit (3)"),
        (
            "@skill(name='x', description='d')\ndef f(a: bytes): pass\n",
            "plug_in.py line 1: TypeError: f: the argument a: there is no JSON Schema for bytes. "
            "Describe it in "
            "parameters, or take str, int, float, bool, list, dict, Literal, an Enum, a date, a Path or a dataclass",
        ),
        (
            "@skill(name='x')\ndef f(): pass\n",
            "plug_in.py line 1: TypeError: f has no description: give it a docstring, or description=...",
        ),
        ("x = 1\n", "plug_in.py declares no @skill; a name that begins with _ marks a helper"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, code: str, told: str) -> None:
    with pytest.raises(Unloadable) as caught:
        load_plugin(plugin(tmp_path, code))
    assert str(caught.value) == told


def test_a_plugin_hides_no_module_of_python(tmp_path: Path) -> None:
    code = "import json\n" + SKILL.format(name="one") + "assert json.loads('[1]') == [1]\n"
    assert [one.name for one in load_plugin(plugin(tmp_path, code, "json.py")).skills] == ["one"]
    import json

    assert json.loads("[1]") == [1]


def test_a_package_may_hold_its_skills_in_its_modules(tmp_path: Path) -> None:
    package = tmp_path / "parts"
    plugin(package, "from .inner import *\n", "__init__.py")
    plugin(package, SKILL.format(name="deep"), "inner.py")
    assert [one.name for one in load_plugin(package).skills] == ["deep"]
    package = tmp_path / "silent"
    plugin(package, "", "__init__.py")
    plugin(package, SKILL.format(name="found"), "inner.py")
    plugin(package, "1 / 0\n", "_helper.py")
    assert [one.name for one in load_plugin(package).skills] == ["found"]


def test_what_is_no_python_file(tmp_path: Path) -> None:
    with pytest.raises(Unloadable, match="is not a Python file"):
        load_plugin(plugin(tmp_path, "", "notes.txt"))


def test_an_error_from_elsewhere_has_no_place(tmp_path: Path) -> None:
    assert explain_error(KeyError("x"), tmp_path) == "KeyError: 'x'"
