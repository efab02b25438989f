"""Importing a plugin, and telling its author what went wrong and where. Runs in the worker."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from .plugin import Skill, collecting, skill

FRAMES = 3
"""Places in the plugin that an explanation names, innermost last."""


class Unloadable(Exception):
    """The plugin cannot be imported; the text says where and why."""


def load(plugin: Path) -> list[Skill]:
    """Imports a file, or a package by its folder, and returns the skills it declares. Raises Unloadable."""
    name = plugin.name if plugin.is_dir() else plugin.stem
    if name in sys.stdlib_module_names:
        raise Unloadable(f"{plugin.name} has the name of a module of Python; rename it")
    file = plugin / "__init__.py" if plugin.is_dir() else plugin
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(plugin)] if plugin.is_dir() else None
    )
    if spec is None or spec.loader is None:
        raise Unloadable(f"{plugin.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["skill"] = skill
    sys.modules[name] = module
    with collecting() as found:
        try:
            spec.loader.exec_module(module)
        except BaseException as error:  # noqa: BLE001 - also sys.exit at import
            raise Unloadable(explain(error, plugin.parent)) from None
        if not found:
            raise Unloadable(f"{plugin.name} declares no @skill; a name that begins with _ marks a helper")
        return list(found)


def explain(error: BaseException, skills_dir: Path) -> str:
    """The error and where in the plugin it came from: `hello.py line 3 in greet: KeyError: 'name'`."""
    what = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename, skills_dir)} line {error.lineno}: {type(error).__name__}: {error.msg}"
    if isinstance(error, SystemExit):
        what = f"it called exit ({error.code})"
    places = list(_places(error, skills_dir))[-FRAMES:]
    return ", ".join(places) + ": " + what if places else what


def _places(error: BaseException, skills_dir: Path) -> Iterator[str]:
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(f"{skills_dir}/"):
            inside = "" if frame.name == "<module>" else f" in {frame.name}"
            yield f"{_short(frame.filename, skills_dir)} line {frame.lineno}{inside}"


def _short(filename: str, skills_dir: Path) -> str:
    return filename.removeprefix(f"{skills_dir}/")
