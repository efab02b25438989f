"""Settings of a program, read from environment variables: one loader for guest and host.

The settings are a plain model: pydantic-settings would read the environment too, and takes long to load. Each field's
docstring is its line in `--help` and its row in the docs. A secret also has a `_FILE` form, which names a file that
holds it.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from .errors import StartError
from .protocol import field_docs

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class SettingsLoader(Generic[M]):
    """Reads the variables of one model. A field with a `validation_alias` is a variable of that name."""

    model: type[M]
    prefix: str
    help_command: str
    """Where all settings are listed, as an error says it."""
    variable_beats_file: bool = False
    """Whether a secret that is given both ways is taken from its own variable; else that is a fault."""
    ignored: frozenset[str] = frozenset()
    """Variables with the prefix that another program reads."""

    def env_name(self, field: str) -> str:
        """The environment variable of a field."""
        alias = self.model.model_fields[field].validation_alias
        return alias if isinstance(alias, str) else self.prefix + field.upper()

    def is_secret(self, field: str) -> bool:
        """Whether the field holds a secret."""
        return "SecretStr" in str(self.model.model_fields[field].annotation)

    def names(self) -> list[str]:
        """Every environment variable that is read, `_FILE` forms included."""
        fields = self.model.model_fields
        return [*map(self.env_name, fields), *(f"{self.env_name(one)}_FILE" for one in fields if self.is_secret(one))]

    def load(self, **overrides: Any) -> M:
        """Read the environment; an empty variable counts as unset. Raises StartError that names every fault, a line
        each."""
        given = {name.upper(): value for name, value in os.environ.items() if value}
        values = {name: given[self.env_name(name)] for name in self.model.model_fields if self.env_name(name) in given}
        wrong = self._read_files(given, values)
        faults = [*self._unknown(), *wrong.values()]
        try:
            settings = self.model.model_validate({**values, **overrides})
        except ValidationError as error:
            found = [(self._field(one["loc"]), one) for one in error.errors()]
            faults += [_fault(self, field, one) for field, one in found if field not in wrong]
        else:
            if not faults:
                return settings
        raise StartError("\n".join(faults))

    def _read_files(self, given: Mapping[str, str], values: dict[str, str]) -> dict[str, str]:
        """Add the secrets that are in files to `values`, and return what is wrong with files, by field."""
        wrong: dict[str, str] = {}
        for field in filter(self.is_secret, self.model.model_fields):
            variable = f"{self.env_name(field)}_FILE"
            path = given.get(variable)
            if path is None or (field in values and self.variable_beats_file):
                continue
            if field in values:
                wrong[field] = f"{variable}: {self.env_name(field)} is set too; keep one of them"
                continue
            try:
                values[field] = Path(path).read_text().strip()
                why = "" if values[field] else "it is empty"
            except (OSError, UnicodeDecodeError) as error:
                why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text"
            if why:
                wrong[field] = f"{variable}: cannot read {path}: {why}"
        return wrong

    def _unknown(self) -> list[str]:
        """A line for each misspelt variable: ignored, it would leave the default in force."""
        known = self.names()
        unknown = sorted(name for name in os.environ if name.upper().startswith(self.prefix))
        return [
            f"{name}: there is no such setting{self._hint(name, known)}"
            for name in unknown
            if name.upper() not in known and name.upper() not in self.ignored
        ]

    def _hint(self, name: str, known: list[str]) -> str:
        import difflib

        short = {one.removeprefix(self.prefix): one for one in known}
        close = difflib.get_close_matches(name.upper().removeprefix(self.prefix), short, n=1)
        return f"; did you mean {short[close[0]]}?" if close else f"; see {self.help_command}"

    def _field(self, where: tuple[int | str, ...]) -> str:
        """Return the setting that a fault is about. pydantic may name it by its alias."""
        first = str(where[0]) if where else ""
        return next((name for name in self.model.model_fields if first in (name, self.env_name(name))), first)

    def help(self, width: int, defaults: Mapping[str, str] | None = None) -> list[str]:
        """Lines for `--help`: each setting's name, its default, what it does. `defaults`: by field, to be shown instead
        of those of this machine."""
        docs = field_docs(self.model)
        lines = list[str]()
        for name, field in self.model.model_fields.items():
            value = (defaults or {}).get(name) or field.get_default(call_default_factory=True, validated_data={})
            lines.append(f"  {self.env_name(name)}" + ("" if value is None else f" [{value}]"))
            lines += textwrap.wrap(docs[name], width, initial_indent="      ", subsequent_indent="      ")
            if self.is_secret(name):
                lines.append(f"      {self.env_name(name)}_FILE names a file that holds it.")
        return lines


def _fault(loader: SettingsLoader[Any], field: str, error: Mapping[str, Any]) -> str:
    """One line for what pydantic found. What a secret holds is not shown."""
    known = field in loader.model.model_fields
    name = ": ".join((loader.env_name(field) if known else field or "settings", *map(str, error["loc"][1:])))
    shown = f" (is {error.get('input')!r})" if known and not loader.is_secret(field) else ""
    return f"{name}: {error['msg'].removeprefix('Value error, ')}{shown}"
