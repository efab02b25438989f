"""The regular expressions of the product, read from its source."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent_common", "agent_client", "agent_runtime", "agent_host", "frontends")
_METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern and how it is used."""

    place: str
    """Its file and the name that it is bound to, or the beginning of its text: what the list names it by."""
    text: str | bytes | None
    """None if only the running product knows it."""
    flags: int
    how: str


def all_patterns() -> Iterator[Pattern]:
    """Yield every pattern, once for each way in which it is used."""
    trees = {path: ast.parse(path.read_text()) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    everywhere = _uses(trees.values())
    for path, tree in sorted(trees.items()):
        here = _uses([tree])
        for name, call in _calls(tree):
            text, flags = _evaluated(path, call)
            method = cast(ast.Attribute, call.func).attr
            shown = name or (ast.unparse(call.args[0])[:60] if text is None else str(text)[:60])
            uses = here[name] if name.startswith("_") or name in here else everywhere[name]
            ways = [method] if method != "compile" else sorted(uses) or ["sub"]
            for how in dict.fromkeys(one if one in ("match", "fullmatch", "search") else "sub" for one in ways):
                yield Pattern(f"{path.relative_to(ROOT)} {shown}", text, flags, how)


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls that make a pattern, each with the name that its value is bound to, or an empty one."""
    names: dict[int, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names |= dict.fromkeys((id(one) for one in ast.walk(value)), name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names |= dict.fromkeys((id(one) for one in ast.walk(value)), name)
            case _:
                continue
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method in ("compile", *_METHODS):
                yield names.get(id(node), ""), node
            case _:
                continue


def _uses(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the methods that are called on each name."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method) if (
                    method in _METHODS
                ):
                    found[name].add(method)
                case _:
                    continue
    return found


def _evaluated(path: Path, call: ast.Call) -> tuple[str | bytes | None, int]:
    """Return the text and the flags of a pattern; the text is None if it is known only when the product runs."""
    given = call.args[1:2] if isinstance(call.func, ast.Attribute) and call.func.attr == "compile" else []
    given = [*given, *(one.value for one in call.keywords if one.arg == "flags")]
    try:
        text = _value(path, call.args[0])
        flags = sum(int(_value(path, one)) for one in given)
    except (NameError, AttributeError):
        return None, 0
    return (text, flags) if isinstance(text, str | bytes) else (None, 0)


def _value(path: Path, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    names: dict[str, Any] = {"re": re}
    if any(one.id != "re" for one in ast.walk(node) if isinstance(one, ast.Name)):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        names = vars(importlib.import_module(module))
    return eval(compile(ast.Expression(node), str(path), "eval"), names)  # noqa: S307  it is our own source
