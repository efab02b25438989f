"""What a shell command line runs, as far as its text tells.

Made for rules over commands, so it errs on one side only: what is not understood is `opaque`, never left out.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from .shell_checks import Where, doubtful, inside, strange
from .shell_runners import ASSIGNMENT, decisive, ran
from .shell_words import Word, names, source, word

if TYPE_CHECKING:
    from tree_sitter import Language, Node

LIMIT = 120 * 1024
"""Bytes of a script that is looked at."""
NODES = 30_000
"""Parts of a script, with all scripts within it."""
CHUNK = 256
"""Bytes that the parser is given at a time; it asks anew for the text of every node."""
DEEPEST = 8
"""Scripts within scripts."""
SECONDS = 1.0
"""A text that takes longer to read is not a script that somebody meant."""

_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_ASCII = bytes(range(128)) + b"x" * 128


@dataclass(frozen=True, slots=True)
class Commands:
    """What a script runs. A rule that allows may hold only where every text is allowed and nothing is opaque."""

    texts: tuple[str, ...] = ()
    """Each simple command, wherever it stands: its words with one space between, quoted only where they must be. A word
    that is only known when it runs stands there as its source. A command that another one runs comes after that one."""
    opaque: bool = False
    """More or something else may run than `texts` says."""
    vague: bool = False
    """Some argument is only known when it runs, so a rule that denies by arguments may miss."""
    pipelines: tuple[str, ...] = ()
    """Commands that are piped into each other, joined by ` | `."""
    writes: tuple[str, ...] = ()
    """Paths that redirections write to, as they are written there."""


def commands(text: str) -> Commands:
    """What bash runs for `bash -c text`. Never raises; takes up to a second, so it belongs into a thread."""
    reader = _Reader()
    reader.read(text, 0)
    return Commands(
        texts=tuple(reader.texts),
        opaque=reader.opaque,
        vague=reader.vague,
        pipelines=tuple(reader.pipelines),
        writes=tuple(reader.writes),
    )


def bare(text: str) -> str:
    """A command with the bare name of its program: `/bin/rm x` is `rm x` as well."""
    program, space, rest = text.partition(" ")
    return (program.rpartition("/")[2] or program) + space + rest


@cache
def _language() -> Language:
    from tree_sitter import Language

    return Language(importlib.import_module("tree_sitter_bash").language())  # pyright: ignore[reportDeprecated]  it is a capsule


class _Text:
    """What the parser is handed, and what nodes ask again for their text.

    The grammar's scanner looks characters up in tables that end at 255; beyond, it reads memory not its own, and
    the process may die of an emoji. So the parser sees letters in their place, byte for byte.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._shown = data.translate(_ASCII)

    def __call__(self, at: int, _: object) -> bytes:
        return self._shown[at : at + CHUNK]

    def reveal(self) -> None:
        """From now on the text is what it is."""
        self._shown = self._data


@dataclass(slots=True)
class _Reader:
    texts: list[str] = field(default_factory=list[str])
    pipelines: list[str] = field(default_factory=list[str])
    writes: list[str] = field(default_factory=list[str])
    opaque: bool = False
    vague: bool = False
    _nodes: int = 0
    _until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def read(self, script: str, depth: int) -> None:
        root = None if depth > DEEPEST else self._parse(script)
        if root is None:
            self.opaque = True
            return
        self._nodes += root.descendant_count
        if self._nodes > NODES:
            self.opaque = True
            return
        outside = script.encode(errors="replace")
        outside = outside[: root.start_byte] + outside[root.end_byte :]
        self.opaque |= root.has_error or outside.strip(b" \t\n") != b""
        self._walk(root, depth)

    def _parse(self, script: str) -> Node | None:
        from tree_sitter import Parser

        if strange(script):
            self.opaque = True
        data = script.encode(errors="replace")
        if len(data) > LIMIT:
            return None
        text = _Text(data)
        try:
            tree = Parser(_language()).parse(text, progress_callback=lambda _, __: time.monotonic() > self._until)
        except ValueError:  # it was called off
            return None
        text.reveal()
        return tree.root_node

    def _walk(self, root: Node, depth: int) -> None:
        shown: dict[int, str] = {}
        piped: list[Node] = []
        stack = [(root, Where())]
        while stack:
            if time.monotonic() > self._until:
                self.opaque = True
                break
            node, where = stack.pop()
            self.opaque |= doubtful(node, where)
            match node.type:
                case "command" | "declaration_command" | "unset_command" | "test_command":
                    shown[node.id] = self._simple(node, depth)
                case "redirected_statement":
                    self._redirected(node, depth)
                case "file_redirect":
                    self._redirect(node)
                case "variable_assignment":
                    self._assignment(node)
                case "pipeline":
                    piped.append(node)
                case _:
                    pass
            stack.extend((child, inside(node, child, where)) for child in reversed(node.children))
        self.pipelines.extend(" | ".join(_piped(node, shown)) for node in piped)

    # ------------------------------------------------------------ simple commands

    def _simple(self, node: Node, depth: int) -> str:
        """Notes the command of this node, and what it runs; its text."""
        words = [_keyword(child) for child in _children(node) if _is_word(child)]
        parent = node.parent
        if parent is not None and parent.type == "redirected_statement":
            words += _redirected(parent)
        return self._run(words, depth)

    def _redirected(self, node: Node, depth: int) -> None:
        """Where no command stands before the redirection, one may stand behind it."""
        words = _redirected(node)
        body = next((child for child in node.named_children if not child.type.endswith(("_redirect", "comment"))), None)
        if body is None:
            self._run(words, depth)
            self.opaque |= bool(words and ASSIGNMENT.match(words[0].text))
        else:
            self.opaque |= bool(words) and body.type != "command"

    def _run(self, words: Sequence[Word], depth: int) -> str:
        """Notes the command with these words and the commands that it runs in turn; its text."""
        waiting = [words] if words else []
        first = ""
        while waiting:
            now = waiting.pop()
            text = " ".join(one.shown for one in now)
            first = first or text
            self.texts.append(text)
            self.vague |= not all(one.literal for one in now)
            more = ran(now)
            self.opaque |= more.opaque
            waiting.extend(more.inner)
            for script in more.scripts:
                self.read(script, depth + 1)
        return first

    def _assignment(self, node: Node) -> None:
        """Variables that decide what runs; IFS in front of `read` touches that command alone."""
        name = source(node.children[0]) if node.children else ""
        parent = node.parent
        reads = parent is not None and any(c.type == "command_name" and source(c) == "read" for c in parent.children)
        self.opaque |= decisive(name) and not (name == "IFS" and reads)

    def _redirect(self, node: Node) -> None:
        operator = next((child.type for child in node.children if child.type != "file_descriptor"), "")
        targets = [word(child) for child in node.children if child.is_named and child.type != "file_descriptor"]
        if operator not in _WRITING or not targets:
            return
        target = targets[0]
        if operator == ">&" and target.literal and (target.text.isdigit() or target.text == "-"):
            return
        self.opaque |= not target.literal
        self.writes.append(target.text)


def _children(node: Node) -> list[Node]:
    """Those of a command; the words between single brackets are arguments, whatever the parser makes of them."""
    if node.type != "test_command" or node.children[0].type != "[":
        return node.children
    flat: list[Node] = []
    waiting = [node]
    while waiting:
        now = waiting.pop()
        if now is node or now.type.endswith("_expression"):
            waiting.extend(reversed(now.children))
        else:
            flat.append(now)
    return flat


def _is_word(node: Node) -> bool:
    return node.type not in {
        "variable_assignment",
        "file_redirect",
        "herestring_redirect",
        "heredoc_redirect",
        "comment",
    } or (node.type == "variable_assignment" and node.parent is not None and node.parent.type == "declaration_command")


def _keyword(node: Node) -> Word:
    """A child of a command as a word, also where the parser has made something of it that is more than a word."""
    expression = node.type.endswith("_expression") or node.type == "variable_assignment"
    return Word(source(node), literal=False, bare=False) if expression else _plain(node)


def _plain(node: Node) -> Word:
    return word(node) if node.is_named else Word(source(node), bare=False)


def _redirected(node: Node) -> list[Word]:
    """Words behind a redirection belong to the command; the parser leaves them with the redirection."""
    words: list[Word] = []
    for child in node.children:
        if child.type == "file_redirect":
            words += _beyond_target(child)
        elif child.type == "heredoc_redirect":
            words += [one for inner in child.children if inner.type == "file_redirect" for one in _beyond_target(inner)]
            words += [word(inner) for inner in child.children if inner.type in _ARGUMENTS]
    return words


_ARGUMENTS = names(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion command_substitution "
    "arithmetic_expansion process_substitution"
)


def _beyond_target(node: Node) -> list[Word]:
    words = [child for child in node.children if child.is_named and child.type not in {"file_descriptor", "comment"}]
    return [word(child) for child in words[1:]]


def _piped(node: Node, shown: dict[int, str]) -> list[str]:
    """The commands of a pipeline; one that is not simple stands there as its source."""
    parts: list[str] = []
    for child in node.children:
        if child.is_named and child.type != "comment":
            at = child
            while at.type in {"redirected_statement", "negated_command", "list"} and at.named_child_count:
                # Of a list in front of a pipe, which the parser may make of `a && b | c`, the last one is piped.
                inner = [one for one in at.named_children if not one.type.endswith("_redirect")]
                at = (inner or at.named_children)[-1 if not parts else 0]
            parts.append(shown.get(at.id, source(child)))
    return parts
