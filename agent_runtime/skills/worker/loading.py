"""Import a plugin, and explain to its author what went wrong and where."""

from __future__ import annotations

import builtins
import importlib.util
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plugin import Skill, collect_skills, skill

MAX_FRAMES = 3
"""Places in the plugin that an explanation names, innermost last."""


class Unloadable(Exception):
    """The plugin cannot be imported; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The skills of a plugin."""

    skills: Sequence[Skill]
    self_check: Callable[..., Any] | None
    """The plugin's function of that name, which raises or returns False when the plugin is not fit for use; None if
    there is none."""


def load_plugin(plugin: Path) -> Loaded:
    """Import a file, or a package by its folder. Raises Unloadable."""
    name = plugin.name if plugin.is_dir() else plugin.stem
    if name in sys.stdlib_module_names:
        name = f"{name}_plugin"  # an import of that name means Python's own module
    file = plugin / "__init__.py" if plugin.is_dir() else plugin
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(plugin)] if plugin.is_dir() else None
    )
    if spec is None or spec.loader is None:
        raise Unloadable(f"{plugin.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with collect_skills() as found, _skill_in_builtins():
        try:
            spec.loader.exec_module(module)
            if not found and plugin.is_dir():
                _import_parts(name, plugin)
        except BaseException as error:  # noqa: BLE001 - also sys.exit at import
            raise Unloadable(explain_error(error, plugin.parent)) from None
        if not found:
            raise Unloadable(f"{plugin.name} declares no @skill; a name that begins with _ marks a helper")
        check = getattr(module, "self_check", None)
        return Loaded(tuple(found), check if callable(check) else None)


@contextmanager
def _skill_in_builtins() -> Generator[None]:
    """Make `skill` available in all modules of a plugin without an import."""
    builtins.__dict__["skill"] = skill
    try:
        yield
    finally:
        builtins.__dict__.pop("skill", None)


def _import_parts(name: str, package: Path) -> None:
    """Import the modules of a package whose `__init__.py` declares no skill."""
    for part in sorted(package.glob("*.py")):
        if not part.stem.startswith("_"):
            importlib.import_module(f"{name}.{part.stem}")


def explain_error(error: BaseException, skills_dir: Path) -> str:
    """Return the error and its place in the plugin: `handshake.py line 3 in greet: KeyError: 'name'`."""
    what = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_relative_name(error.filename, skills_dir)} line {error.lineno}: {type(error).__name__}: {error.msg}"
    if isinstance(error, SystemExit):
        what = f"it called exit ({error.code})"
    places = list(_plugin_frames(error, skills_dir))[-MAX_FRAMES:]
    return ", ".join(places) + ": " + what if places else what


def _plugin_frames(error: BaseException, skills_dir: Path) -> Iterator[str]:
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(f"{skills_dir}/"):
            inside = "" if frame.name == "<module>" else f" in {frame.name}"
            yield f"{_relative_name(frame.filename, skills_dir)} line {frame.lineno}{inside}"


def _relative_name(filename: str, skills_dir: Path) -> str:
    return filename.removeprefix(f"{skills_dir}/")
