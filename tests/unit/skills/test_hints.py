"""Hints as JSON Schema, and values as hints say. No `annotations` of the future here: see test_signature for those."""

# ruff: noqa: UP006, UP007, UP035, UP045 - hints in the old spelling are hints too

import enum
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from pathlib import Path, PurePath
from typing import (
    Annotated,
    Any,
    Dict,
    List,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.ports import ToolSpec
from agent_runtime.skills.validation.declarations import KEYWORDS, check_declaration
from agent_runtime.skills.worker.schema.hints import NoSchema, build_form
from agent_runtime.tools.core.schema import argument_faults

TEXT, WHOLE, NUMBER, YES = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
NULL = {"type": "null"}
DATE = {"type": "string", "format": "date"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Nothing(enum.Enum):
    pass


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Line:
    """Between two points.

    Attributes:
        start: Where it begins.
    """

    start: Point
    end: Annotated[Point, "Where it ends"]
    tags: list[str] = field(default_factory=list)
    drawn: Optional[date] = None


class Place(NamedTuple):
    name: str
    since: date = date(2020, 1, 1)


class Row(TypedDict):
    region: str
    amount: NotRequired[float]


class Loose(TypedDict, total=False):
    day: Required[date]
    note: str


@dataclass
class Node:
    children: "list[Node]"


class Raw(TypedDict):
    a: bytes


class Lost(TypedDict):
    a: "Missing"  # type: ignore[name-defined]  # noqa: F821


Name = NewType("Name", str)
Bare = namedtuple("Bare", "a b")  # pyright: ignore[reportUntypedNamedTuple]
T = TypeVar("T")


def many(items: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "array", **({"items": items} if items else {}), **more}


def table(values: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def either(*schemas: Any, **more: Any) -> dict[str, Any]:
    return {"anyOf": list(schemas), **more}


def thing(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


POINT = thing({"x": WHOLE, "y": {**WHOLE, "default": 0}}, "x")
LINE = thing(
    {
        "start": {**POINT, "description": "Where it begins."},
        "end": {**POINT, "description": "Where it ends"},
        "tags": {"type": "array", "items": TEXT},
        "drawn": {"anyOf": [DATE, NULL], "default": None},
    },
    "start",
    "end",
    description="Between two points.",
)

TABLE: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (str, TEXT, "a", "a"),
    (int, WHOLE, 3, 3),
    (int, WHOLE, 3.0, 3),
    (float, NUMBER, 3, 3),
    (bool, YES, True, True),
    (None, NULL, None, None),
    (Any, {}, [1, None], [1, None]),
    (object, {}, "x", "x"),
    (list, {"type": "array"}, [1, "a"], [1, "a"]),
    (list[int], many(WHOLE), [1, 2.0], [1, 2]),
    (List[str], many(TEXT), ["a"], ["a"]),
    (Sequence[str], many(TEXT), ["a"], ["a"]),
    (Iterable[date], many(DATE), ["2024-02-29"], [date(2024, 2, 29)]),
    (list[Any], {"type": "array"}, [1, "a"], [1, "a"]),
    (tuple, {"type": "array"}, [1, "a"], (1, "a")),
    (tuple[str, ...], many(TEXT), ["a", "b"], ("a", "b")),
    (
        tuple[int, str, int],
        {"type": "array", "items": either(WHOLE, TEXT), "minItems": 3, "maxItems": 3},
        [1.0, "a", 2],
        (1, "a", 2),
    ),
    (tuple[int, int], {"type": "array", "items": WHOLE, "minItems": 2, "maxItems": 2}, [1, 2], (1, 2)),
    (tuple[int, Any], {"type": "array", "minItems": 2, "maxItems": 2}, [1, []], (1, [])),
    (set[str], many(TEXT, uniqueItems=True), ["a", "b"], {"a", "b"}),
    (frozenset[Colour], many({**TEXT, "enum": ["red", "blue"]}, uniqueItems=True), ["red"], frozenset({Colour.RED})),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (Dict[str, int], table(WHOLE), {"a": 1.0}, {"a": 1}),
    (Mapping[str, str], table(TEXT), {"a": "b"}, {"a": "b"}),
    (dict[str, Any], {"type": "object"}, {"a": [1]}, {"a": [1]}),
    (dict[Name, Point], table(POINT), {"a": {"x": 1}}, {"a": Point(1)}),
    (Literal["a", "b"], {**TEXT, "enum": ["a", "b"]}, "a", "a"),
    (Literal[1, 2], {**WHOLE, "enum": [1, 2]}, 2.0, 2),
    (Literal["a", None], {"enum": ["a", None]}, None, None),
    (Colour, {**TEXT, "enum": ["red", "blue"]}, "red", Colour.RED),
    (Level, {**TEXT, "enum": ["LOW", "HIGH"]}, "HIGH", Level.HIGH),
    (Optional[str], either(TEXT, NULL), None, None),
    (int | None, either(WHOLE, NULL), 2.0, 2),
    (Union[str, Any], {}, 1, 1),
    (str | Name, TEXT, "a", "a"),
    (date | str, either(DATE, TEXT), "2024-02-29", date(2024, 2, 29)),
    (date | str, either(DATE, TEXT), "tomorrow", "tomorrow"),
    (Point | Line | int, either(POINT, LINE, WHOLE), {"start": {"x": 1}, "end": {"x": 2}}, Line(Point(1), Point(2))),
    (bool | Literal[1], either(YES, {**WHOLE, "enum": [1]}), True, True),
    (list[int] | list[date], either(many(WHOLE), many(DATE)), ["2024-02-29"], [date(2024, 2, 29)]),
    (
        dict[str, int] | dict[str, date],
        either(table(WHOLE), table(DATE)),
        {"a": "2024-02-29"},
        {"a": date(2024, 2, 29)},
    ),
    (dict[str, Any] | Point, either({"type": "object"}, POINT), {"x": 1}, {"x": 1}),
    (Optional[Optional[date] | Point], either(DATE, NULL, POINT), {"x": 1}, Point(1)),
    (Annotated[str, "A name"], {**TEXT, "description": "A name"}, "a", "a"),
    (Annotated[str, 3, "A name", "more"], {**TEXT, "description": "A name"}, "a", "a"),
    (Optional[Annotated[str, "A name"]], either(TEXT, NULL, description="A name"), None, None),
    (Annotated[str | None, "A name"], either(TEXT, NULL, description="A name"), None, None),
    (Name, TEXT, "a", "a"),
    (date, DATE, "2024-02-29", date(2024, 2, 29)),
    (time, {**TEXT, "format": "time"}, "09:30", time(9, 30)),
    (datetime, {**TEXT, "format": "date-time"}, "2024-02-29T10:00:00Z", datetime(2024, 2, 29, 10, tzinfo=UTC)),
    (Path, TEXT, "a/b.csv", Path("a/b.csv")),
    (PurePath, TEXT, "a/b.csv", PurePath("a/b.csv")),
    (Point, POINT, {"x": 1, "y": 2.0}, Point(1, 2)),
    (
        Line,
        LINE,
        {"start": {"x": 1}, "end": {"x": 2}, "drawn": "2024-02-29"},
        Line(Point(1), Point(2), [], date(2024, 2, 29)),
    ),
    (Place, thing({"name": TEXT, "since": {**DATE, "default": "2020-01-01"}}, "name"), {"name": "a"}, Place("a")),
    (Bare, thing({"a": {}, "b": {}}, "a", "b"), {"a": 1, "b": []}, Bare(1, [])),
    (Row, thing({"region": TEXT, "amount": NUMBER}, "region"), {"region": "a"}, {"region": "a"}),
    (Loose, thing({"day": DATE, "note": TEXT}, "day"), {"day": "2024-02-29"}, {"day": date(2024, 2, 29)}),
    (list[Point], many(POINT), [{"x": 1}], [Point(1)]),
]


@pytest.mark.parametrize(("hint", "schema", "value", "read"), TABLE, ids=lambda value: None)
def test_a_hint_is_a_schema_and_what_comes_of_a_value(hint: Any, schema: dict, value: Any, read: Any) -> None:
    made = build_form(hint)
    assert made.schema == schema
    given = made.read(value) if made.read else value
    assert given == read
    assert type(given) is type(read)
    assert not argument_faults(thing({"one": schema}), {"one": value}), (
        "a value in the table is one that the server lets through"
    )


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (bytes, "there is no JSON Schema for bytes"),
        (complex, "there is no JSON Schema for complex"),
        (T, "there is no JSON Schema for ~T"),
        (3, "there is no JSON Schema for 3"),
        (Callable[[int], str], "there is no JSON Schema for collections.abc.Callable"),
        (list[bytes], "there is no JSON Schema for bytes"),
        (Nothing, "Nothing has no members"),
        (Literal[b"a"], "has a value that is not JSON"),
        (Literal[Colour.RED], "has a value that is not JSON"),
        (dict[int, str], "the keys of dict.int, str. must be str"),
        (Node, "children: Node contains itself"),
        (list[Node], "children: Node contains itself"),
        (Lost, "a hint of Lost cannot be resolved here: name 'Missing' is not defined"),
        (Raw, "a: there is no JSON Schema for bytes"),
    ],
)
def test_a_hint_without_a_schema_is_named(hint: Any, told: str) -> None:
    with pytest.raises(NoSchema, match=told):
        build_form(hint)


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (date, "2024-13-45", "must be a date such as 2026-01-31, not '2024-13-45'"),
        (datetime, "noon", "must be a date-time such as 2026-01-31T09:30:00.00:00, not 'noon'"),
        (time, "x" * 200, "must be a time such as 09:30:00, not 'x{79}$"),
        (tuple[int, str], ["a", 1], "must be of type integer, not 'a'"),
        (date | Point, "noon", "must be a date such as"),
        (Line, {"start": {"x": 1}, "end": {"x": 1}, "drawn": "noon"}, "drawn: must be a date"),
    ],
)
def test_a_value_that_cannot_be_read_is_told(hint: Any, value: Any, told: str) -> None:
    read = build_form(hint).read
    assert read is not None
    with pytest.raises(ValueError, match=told):
        read(value)


def test_an_alias_is_what_it_stands_for() -> None:
    class TypeAliasType:
        """As Python 3.12 makes them of `type Words = list[str]`."""

        __value__: Any = list[str]

    assert build_form(TypeAliasType()).schema == {"type": "array", "items": TEXT}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is of Python 3.12")
def test_a_real_alias() -> None:
    names: dict[str, Any] = {}
    exec("type Words = list[str]\ntype Deep = list[Deep]", names)  # noqa: S102
    assert build_form(names["Words"]).schema == {"type": "array", "items": TEXT}
    with pytest.raises(NoSchema, match="contains itself"):
        build_form(names["Deep"])


# ---------------------------------------------------------------- any hint

LEAVES = [one[0] for one in TABLE]
HINTS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),
        inner.map(lambda one: dict[str, one]),
        inner.map(lambda one: Optional[one]),
        inner.map(lambda one: Annotated[one, "Said of it"]),
        inner.map(lambda one: dataclass(type("Made", (), {"__annotations__": {"one": one}}))),
        st.tuples(inner, inner).map(lambda two: Union[two]),
        st.tuples(inner, inner).map(lambda two: tuple[two]),
    ),
    max_leaves=5,
)


def keywords(schema: Any) -> set[str]:
    """All keywords of a schema and of those in it."""
    found = set(schema)
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    return found.union(*map(keywords, inner))


@given(HINTS)
def test_what_comes_of_any_hint_is_a_schema_that_the_server_takes(hint: Any) -> None:
    schema = build_form(hint).schema
    assert keywords(schema) <= KEYWORDS
    skill = {"name": "x", "description": "d", "parameters": thing({"one": schema}, "one")}
    if depth(schema) < 7:
        assert isinstance(check_declaration(skill).spec, ToolSpec)


def depth(schema: Any) -> int:
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    inner += [schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    return 1 + max(map(depth, inner), default=0)


WORDS = st.sampled_from(["red", "LOW", "a", "2024-02-29"])
KEYS = st.sampled_from(["x", "y", "one", "day"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@given(HINTS, JSON)
def test_what_the_server_lets_through_is_read_or_told(hint: Any, value: Any) -> None:
    made = build_form(hint)
    if made.read is None or argument_faults(thing({"one": made.schema}), {"one": value}):
        return
    try:
        made.read(value)
        told = None
    except (ValueError, TypeError) as fault:
        told = str(fault)
    assert told is None or "must be" in told or "unhashable" in told
