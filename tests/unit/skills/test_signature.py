"""`@skill` in all its forms, and what becomes of a signature. Plugins are loaded as a worker loads them."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.skills import skill
from agent_runtime.skills.validation.declarations import check_declaration
from agent_runtime.skills.worker.loading import Unloadable, load_plugin
from agent_runtime.skills.worker.plugin import Skill, collect_skills

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}

Load = Callable[[str], Skill]


@pytest.fixture(params=["", "from __future__ import annotations\n"], ids=["hints", "hints as texts"])
def plugin(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Load]:
    """Loads the code of a plugin and gives its skill, which the server would take."""

    def made(code: str) -> Skill:
        path = tmp_path / "plug_in.py"
        path.write_text(request.param + code)
        (one,) = load_plugin(path).skills
        check_declaration(one.describe())
        return one

    yield made
    sys.modules.pop("plug_in", None)


def schema(**properties: Any) -> dict[str, Any]:
    required = [name for name, one in properties.items() if "default" not in one]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def call(one: Skill, **given: Any) -> Any:
    return one.function(**one.arguments.convert(given))


WORDS = '''
def word_count(path: str, at_least: int = 1, *, workspace) -> dict:
    """Count the words of a text file.

    Args:
        path: The file
    """
    return {"path": path, "at_least": at_least}
'''
DERIVED = schema(path={**TEXT, "description": "The file"}, at_least={**WHOLE, "default": 1})


@pytest.mark.parametrize("decorator", ["@skill", "@skill()", "@skill(read_only=True)"])
def test_a_function_with_a_docstring_is_enough(plugin: Load, decorator: str) -> None:
    one = plugin(decorator + WORDS)
    assert (one.name, one.description) == ("word_count", "Count the words of a text file.")
    assert one.parameters == DERIVED
    assert (one.read_only, one.timeout, one.idempotent) == ("read_only" in decorator, None, False)
    assert call(one, path="a", workspace=0) == {"path": "a", "at_least": 1}


def test_what_is_said_wins(plugin: Load) -> None:
    one = plugin('@skill(name="words", description="Count.")' + WORDS)
    assert (one.name, one.description, one.parameters) == ("words", "Count.", DERIVED)


def test_parameters_that_are_given_are_taken_as_they_are(plugin: Load) -> None:
    one = plugin(
        '@skill(parameters={"path": {"type": "string"}, "at_least": {"type": "number", "default": 2}})' + WORDS
    )
    assert one.parameters == schema(path=TEXT, at_least={"type": "number", "default": 2})
    assert call(one, path="a", workspace=0)["at_least"] == 2
    one = plugin('@skill(parameters={"type": "object", "properties": {"path": {}}, "minProperties": 1})' + WORDS)
    assert one.parameters == {
        "type": "object",
        "properties": {"path": {}},
        "minProperties": 1,
        "additionalProperties": False,
    }


def test_what_parameters_leave_out(plugin: Load) -> None:
    """What the function cannot do without is derived, the rest is its own affair."""
    one = plugin("@skill(parameters={})" + WORDS)
    assert one.parameters == schema(path={**TEXT, "description": "The file"})
    code = '''
        import datetime, enum
        class Kind(enum.Enum):
            A = "a"
        @skill(parameters={"b": {"type": "string"}, "kind": {"enum": ["a"]}})
        def f(a: datetime.date, b, kind: Kind, c: bytes = b""):
            """Do it.

            :param a: First.
            :param b: Not told: it is described.
            """
            return [a, b, kind]
    '''
    one = plugin(inspect.cleandoc(code))
    first = {**TEXT, "format": "date", "description": "First."}
    assert one.parameters == {**schema(b=TEXT, kind={"enum": ["a"]}, a=first), "required": ["b", "kind", "a"]}
    assert call(one, a="2024-02-29", b="2024-02-29", kind="a") == [date(2024, 2, 29), "2024-02-29", "a"]


def test_arguments_of_all_kinds(plugin: Load) -> None:
    code = '''
        from dataclasses import dataclass
        from datetime import date
        from enum import Enum
        from pathlib import Path
        from typing import Annotated, Literal, Optional, TypedDict, NotRequired

        class Colour(Enum):
            RED = "red"

        @dataclass
        class Point:
            x: int
            y: "int" = 0

        class Row(TypedDict):
            day: date
            note: NotRequired[str]

        @skill
        async def f(
            anything,
            words: list[str],
            point: Point,
            row: Row,
            told: Annotated[str, "By the hint"],
            *rest: "Unknown",
            mesh_client: "Unknown" = None,
            workspace: "Unknown",
            maybe: Optional[int] = None,
            sloppy: str = None,
            mode: Literal["a", "b"] = "a",
            colour: Colour = Colour.RED,
            since: date = date(2020, 1, 1),
            path: Path = Path("sales.csv"),
            pair: tuple[int, int] = (1, 2),
            odd: float = float("inf"),
            strange: object = object(),
            long: str = "x" * 600,
        ) -> "Unknown":
            """Do it.

            Args:
                told: Not this.
                point: Where.
            """
            return locals()
    '''
    one = plugin(inspect.cleandoc(code))
    null = {"type": "null"}
    day = {**TEXT, "format": "date"}
    point = schema(x=WHOLE, y={**WHOLE, "default": 0})
    assert one.parameters["properties"] == {
        "anything": {},
        "words": {"type": "array", "items": TEXT},
        "point": {**point, "description": "Where."},
        "row": {**schema(day=day, note=TEXT), "required": ["day"]},
        "told": {**TEXT, "description": "By the hint"},
        "maybe": {"anyOf": [WHOLE, null], "default": None},
        "sloppy": {"anyOf": [TEXT, null], "default": None},
        "mode": {**TEXT, "enum": ["a", "b"], "default": "a"},
        "colour": {**TEXT, "enum": ["red"], "default": "red"},
        "since": {**day, "default": "2020-01-01"},
        "path": {**TEXT, "default": "sales.csv"},
        "pair": {"type": "array", "items": WHOLE, "minItems": 2, "maxItems": 2, "default": [1, 2]},
        "odd": {"type": "number"},
        "strange": {},
        "long": TEXT,
    }
    assert one.parameters["required"] == ["anything", "words", "point", "row", "told"]
    given = {"anything": 1, "words": [], "point": {"x": 1}, "row": {"day": "2024-02-29"}, "told": ""}
    read = one.arguments.convert({**given, "since": "2024-02-29", "colour": "red"})
    module = sys.modules["plug_in"]
    assert read["point"] == module.Point(1)
    assert read["row"] == {"day": date(2024, 2, 29)}
    assert (read["colour"], read["since"]) == (module.Colour.RED, date(2024, 2, 29))
    assert "path" not in read, "the function has its own default"
    with pytest.raises(ValueError, match="row: day: must be a date such as"):
        one.arguments.convert({**given, "row": {"day": "soon"}})


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "@skill\ndef f(a: bytes):\n    'd'",
            "line LINE: TypeError: f: the argument a: there is no JSON Schema for bytes. Describe it in parameters, or",
        ),
        (
            "@skill\ndef f(a: 'Nope'):\n    'd'",
            "f: the argument a: its hint Nope cannot be resolved here: name 'Nope' is not defined; import or define it",
        ),
        (
            "@skill\ndef f(a: 'list['):\n    'd'",
            "f: the argument a: its hint list[ cannot be resolved here: Forward reference must be",
        ),
        (
            "class N:\n    x: int\n@skill\ndef f(a: list[N]):\n    'd'",
            "f: the argument a: there is no JSON Schema for N.",
        ),
        (
            "from typing import NamedTuple\nclass N(NamedTuple):\n    x: bytes\n@skill\ndef f(a: N):\n    'd'",
            "f: the argument a: x: there is no JSON Schema for bytes",
        ),
        ("@skill\ndef f(**more: int):\n    'd'", "f takes any keyword: say in parameters which there are"),
        ("@skill\ndef f(a, /):\n    'd'", "f must take a by keyword"),
        ("@skill\ndef f(): pass", "f has no description: give it a docstring, or description=..."),
        ("@skill(description='')\ndef f(): pass", "f has no description"),
        ("@skill\ndef f(a):\n    '''\n    Args:\n        a: b\n    '''", "f has no description"),
        (
            "@skill('x')\ndef f(): pass",
            "@skill goes on a function, and its fields have names: @skill(name=...), not 'x'",
        ),
        ("@skill(parameters=['a'])\ndef f(a):\n    'd'", "parameters: must be a dict from arguments to their schemas"),
        ("@skill\nclass F:\n    'd'", "@skill goes on a function"),
        ("@skill\ndef f(a: 3 = None):\n    'd'", "f: the argument a: "),
    ],
)
def test_what_cannot_be_a_skill_is_told(plugin: Load, code: str, told: str) -> None:
    with pytest.raises(Unloadable) as caught:
        plugin(code)
    line = re.search(r"plug_in.py line (\d+): TypeError", str(caught.value))
    assert line is not None
    assert told.replace("LINE", line[1]) in str(caught.value)


def test_a_wrapped_function_is_what_it_wraps(plugin: Load) -> None:
    code = """
        import functools
        def loud(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)
            return wrapper
        @skill
        @loud
        def f(a: int):
            "Do it."
            return a
    """
    one = plugin(inspect.cleandoc(code))
    assert (one.name, one.parameters) == ("f", schema(a=WHOLE))


def test_the_function_keeps_its_type() -> None:
    """The assignments are for pyright, which checks this file."""
    with collect_skills():

        @skill
        def bare(a: int) -> str:
            "Do it."
            return str(a)

        @skill(read_only=True)
        async def called(a: int) -> str:
            "Do it."
            return str(a)

    first: str = bare(1)
    second: Callable[[int], Any] = called
    assert (first, inspect.iscoroutinefunction(second)) == ("1", True)
