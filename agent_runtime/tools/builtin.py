"""The product's own tools, in the order in which a model is best told about them."""

from __future__ import annotations

from ..sandbox import Confinement, Limits
from .bash import bash_tool
from .contract import Tool
from .edit import edit_tool
from .files import PathLocks
from .gate import DEFAULT_TIMEOUT
from .question import question_tool
from .read import read_tool
from .search import Engine, Finder, glob_tool, grep_tool
from .write import write_tool


def builtin_tools(
    confinement: Confinement,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    limits: Limits | None = None,
    engine: Engine = "ripgrep",
) -> tuple[Tool, ...]:
    """read, write, edit, glob, grep, bash and question. `timeout` is the default deadline of a command, in seconds."""
    locks, finder = PathLocks(), Finder(confinement)
    return (
        read_tool(),
        write_tool(locks),
        edit_tool(locks),
        glob_tool(finder),
        grep_tool(finder, engine),
        bash_tool(confinement, timeout=timeout, limits=limits or Limits()),
        question_tool(),
    )
