"""Match the patterns of a JSON Schema in linear time, with the regex engine of pydantic.

Python's own engine may take exponential time and keeps the interpreter meanwhile, so a short pattern could stop the
server. Here the time is proportional to the size of the compiled pattern and to the length of the text, so the larger
the one, the shorter the other may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_COPIES = (1000, 100, 10)
"""How many copies of a pattern fit into the 10 MiB that the engine accepts: a measure of its compiled size."""
_CHARACTERS_PER_COPY = 400
"""Characters of text for each copy. With these, no match takes much longer than half a second."""
_TOO_LARGE = "is too large: use fewer repetitions, maxLength, or [0-9] and [a-z] in place of \\d and \\w"


class UnsupportedPattern(Exception):
    """The engine cannot match this pattern, or not in bounded time."""


@dataclass(frozen=True, slots=True)
class LinearPattern:
    """A compiled pattern."""

    program: SchemaValidator
    max_characters: int
    """Maximum characters of a text that can be matched."""

    def occurs_in(self, text: str) -> bool:
        return self.program.isinstance_python(text)


@lru_cache(maxsize=32)
def compile_pattern(pattern: str) -> LinearPattern:
    """Compile the pattern. Raises UnsupportedPattern."""
    try:
        program = _compile(pattern)
    except SchemaError as error:
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("error: ")
        raise UnsupportedPattern(_TOO_LARGE if "size limit" in reason else reason) from error
    for copies in _COPIES:
        try:
            _compile(f"(?:{pattern}){{{copies}}}")
        except SchemaError:
            continue
        return LinearPattern(program, copies * _CHARACTERS_PER_COPY)
    raise UnsupportedPattern(_TOO_LARGE)


def pattern_fault(pattern: str) -> str | None:
    """Return why the pattern cannot be matched; None if it can."""
    try:
        compile_pattern(pattern)
    except UnsupportedPattern as error:
        return str(error)
    return None


def _compile(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
