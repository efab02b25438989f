"""Simplify the schema of a server's tool, so that it is safe to show to the model and to check arguments against.

Arguments are checked on the event loop. A `pattern` may take exponential time, a `$ref` may recurse without end, and a
schema may fill the model's window. So these are dropped and the size is limited. A simplified schema accepts everything
that the server's own schema accepts; the server checks the arguments again. It is valid because only known keywords
with valid values are kept, so it is not checked against the dialect, which takes the library a tenth of a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

MAX_SCHEMA_LENGTH = 32 * 1024
"""Most characters of a schema as JSON."""
MAX_DEPTH = 8
MAX_PROPERTIES = 200
MAX_NAME_LENGTH = 128
TEXT_LIMIT = 200
"""Most characters of a description."""
PATTERN_LIMIT = 100
"""Most characters of a pattern, which is shown in the description and not checked."""
MAX_VALUE_LENGTH = 4096
"""Most characters of a `default`, `const` or `enum` as JSON; a larger one is dropped."""
MAX_POINTER_LENGTH = 500
_ANNOTATIONS = frozenset({"description", "default"})
_OBJECT_KEYWORDS = ("minProperties", "maxProperties")
TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})

Schema = dict[str, Any]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_type(value: Any) -> bool:
    names = cast("list[Any]", value) if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(one, str) and one in TYPES for one in names) and len(set(names)) == len(names)


KEPT_KEYWORDS: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": lambda value: isinstance(value, list) and bool(cast("list[Any]", value)),
    "const": lambda _: True,
    "default": lambda _: True,
    "format": lambda value: isinstance(value, str) and len(value) <= 40,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_count(value) and value > 0,  # the remainder of 19.99 by 0.01 is not 0
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count),
}
"""Keywords that are kept if their value is valid."""


class _TooMuch(Exception):
    """The schema is too large once its references are resolved."""


def simplify_schema(schema: Mapping[str, Any]) -> Schema:
    """Return a schema of type object without references, patterns and unknown keywords."""
    for deepest in (MAX_DEPTH, 2, 1):  # a schema that is too large is cut at a smaller depth
        try:
            found = _Reduction(schema, deepest).reduce()
            if len(json.dumps(found)) <= MAX_SCHEMA_LENGTH:
                return found
        except (_TooMuch, RecursionError):
            continue
    return {"type": "object"}


def plain_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return the text on one line, without invisible characters, and shortened."""
    visible = "".join(sign if sign.isprintable() else " " if sign.isspace() else "" for sign in text[: limit * 8])
    line = " ".join(visible.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


class _Reduction:
    def __init__(self, root: Mapping[str, Any], max_depth: int) -> None:
        self._root = root
        self._max_depth = max_depth
        self._old = "draft-0" in _text(root.get("$schema"))
        self._budget = 2 * MAX_SCHEMA_LENGTH
        """Characters that may still be read or written, because references may repeat the same part many times."""
        self._sizes: dict[int, int] = {}
        """Characters of parts of `root`, by identity, so that each is measured once."""

    def reduce(self) -> Schema:
        """Return the simplified schema with only properties at the top, as some models accept no alternatives there.
        The properties of the alternatives are included."""
        top = self._schema(self._root, 0, ())
        found = top if isinstance(top, dict) else {}
        properties: Schema = dict(found.get("properties", {}))
        required: list[str] = list(found.get("required", []))
        for branch in _objects(found.get("allOf")):
            properties = {**branch.get("properties", {}), **properties}
            required += branch.get("required", [])
        choices: dict[str, dict[str, Any]] = {}  # the schemas of a name in the alternatives, by their JSON
        for branch in _objects(found.get("anyOf")):
            for name, one in branch.get("properties", {}).items():
                choices.setdefault(name, {})[json.dumps(one)] = one
        for name, known in choices.items():
            ones = list(known.values())
            properties.setdefault(name, ones[0] if len(ones) == 1 else {"anyOf": ones})
        kept = {word: found[word] for word in ("additionalProperties", *_OBJECT_KEYWORDS) if word in found}
        if found.get("allOf") or found.get("anyOf"):
            kept.pop("additionalProperties", None)
        must = [name for name in dict.fromkeys(required) if name in properties]
        return {"type": "object", "properties": properties, **({"required": must} if must else {}), **kept}

    def _schema(self, value: Any, depth: int, above: tuple[str, ...]) -> Schema | bool:
        """Simplify one subschema. `above`: the references that led here. A schema that accepts everything is returned
        as an empty one, because not every model accepts `true`."""
        self._charge(8)
        if value is False:
            return value
        if not isinstance(value, dict) or depth > self._max_depth:
            return {}
        schema = cast("Schema", value)
        self._charge(len(schema))
        if "$ref" in schema:
            return self._reference(schema, depth, above)
        found = {word: schema[word] for word in KEPT_KEYWORDS if word in schema and self._is_valid(word, schema[word])}
        found |= self._description(schema)
        found |= self._object_keywords(schema, depth, above)
        found |= self._branches(schema, depth, above)
        if isinstance(schema.get("items"), dict | bool) and "prefixItems" not in schema:
            found["items"] = self._schema(schema["items"], depth + 1, above)
        return _or_null(found) if schema.get("nullable") is True and depth else found

    def _is_valid(self, word: str, value: Any) -> bool:
        size = self._sizes.get(id(value))
        if size is None:
            size = self._sizes[id(value)] = _length(value)
        if size > MAX_VALUE_LENGTH or not KEPT_KEYWORDS[word](value):
            return False
        self._charge(size)
        return True

    def _charge(self, characters: int) -> None:
        self._budget -= characters
        if self._budget < 0:
            raise _TooMuch

    def _reference(self, schema: Schema, depth: int, above: tuple[str, ...]) -> Schema | bool:
        """Simplify the target of a local reference, with its sibling keywords. Other and cyclic ones accept
        anything."""
        name = schema["$ref"]
        target = self._find(name) if isinstance(name, str) and name not in above else None
        # Up to draft 7, keywords beside a reference are ignored.
        beside = {k: one for k, one in schema.items() if k != "$ref" and (not self._old or k in _ANNOTATIONS)}
        near = self._schema(beside, depth, above)
        far = self._schema(target, depth, (*above, cast("str", name)))
        if isinstance(near, bool) or isinstance(far, bool):
            return False
        found = {**far, **near} if near.keys() <= _ANNOTATIONS else {"allOf": [far, near]}
        return _or_null(found) if beside.get("nullable") is True and depth else found

    def _find(self, pointer: str) -> Any:
        if not pointer.startswith("#/") or len(pointer) > MAX_POINTER_LENGTH:
            return self._root if pointer == "#" else None
        at: Any = self._root
        for part in pointer[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(at, dict) or key not in at:
                return None
            at = cast("Schema", at)[key]
        return at

    def _description(self, schema: Schema) -> Schema:
        text = schema.get("description")
        description = plain_text(text) if isinstance(text, str) else ""
        if isinstance(pattern := schema.get("pattern"), str):
            description = f"{description} (pattern: {plain_text(pattern, PATTERN_LIMIT)})".strip()
        return {"description": description} if description else {}

    def _object_keywords(self, schema: Schema, depth: int, above: tuple[str, ...]) -> Schema:
        found: Schema = {}
        properties: Any = schema.get("properties")
        known: Schema = {}
        if isinstance(properties, dict):
            named = cast("Mapping[Any, Any]", properties)
            self._charge(len(named))
            good = [name for name in named if isinstance(name, str) and _is_name(name)][:MAX_PROPERTIES]
            known = {name: self._schema(named[name], depth + 1, above) for name in good}
            found["properties"] = known
            whole = len(good) == len(named)
        else:
            whole = True
        required: Any = schema.get("required")
        if isinstance(required, list):
            self._charge(len(cast("list[Any]", required)))
            found["required"] = list(
                dict.fromkeys(one for one in cast("list[Any]", required) if isinstance(one, str) and one in known)
            )
        rest: Any = schema.get("additionalProperties")
        if whole and "patternProperties" not in schema and isinstance(rest, dict | bool):
            found["additionalProperties"] = self._schema(rest, depth + 1, above) or rest is not False
        return found

    def _branches(self, schema: Schema, depth: int, above: tuple[str, ...]) -> Schema:
        """Simplify alternatives. `oneOf` becomes `anyOf`, because several simplified branches may match."""
        inner: dict[str, list[Any]] = {}
        for word in ("anyOf", "oneOf", "allOf"):
            branches: Any = schema.get(word)
            if isinstance(branches, list) and branches:
                inner[word] = [self._schema(one, depth + 1, above) for one in cast("list[Any]", branches)]
        every = inner.get("allOf", [])
        if "anyOf" in inner and "oneOf" in inner:
            every = [*every, {"anyOf": inner["anyOf"]}, {"anyOf": inner["oneOf"]}]
            inner.clear()
        some = inner.get("anyOf") or inner.get("oneOf")
        return {**({"anyOf": some} if some else {}), **({"allOf": every} if every else {})}


def _or_null(schema: Schema) -> Schema:
    """Return a schema that accepts null too, as `nullable` of OpenAPI wants it."""
    if schema.keys() & {"const", "anyOf", "allOf"}:
        about = {word: one for word, one in schema.items() if word in _ANNOTATIONS}
        rest = {word: one for word, one in schema.items() if word not in _ANNOTATIONS}
        return {**about, "anyOf": [rest, {"type": "null"}]}
    found = dict(schema)
    if (kind := schema.get("type")) is not None:
        kinds: list[str] = cast("list[str]", kind) if isinstance(kind, list) else [kind]
        found["type"] = list(dict.fromkeys((*kinds, "null")))
    if "enum" in schema and None not in schema["enum"]:
        found["enum"] = [*schema["enum"], None]
    return found


def _objects(branches: Any) -> list[Schema]:
    return [cast("Schema", one) for one in cast("list[Any]", branches or []) if isinstance(one, dict)]


def _length(value: Any) -> int:
    """Return the characters of a value as JSON: without end if it has NaN or an infinite number, which is no JSON."""
    try:
        return len(json.dumps(value, allow_nan=False))
    except ValueError:
        return MAX_SCHEMA_LENGTH


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()
