"""The program behind glob and grep: one request as JSON on stdin, one answer as JSON on stdout.

It runs as a confined process of its own: a pattern that never stops matching then costs one process its deadline, and a
link in the workspace leads nowhere. Only the standard library, so that it starts fast. ripgrep, where it is installed,
does the matching of lines; which files are looked at is decided here, so that both ways give the same answer.
"""

from __future__ import annotations

import base64
import fnmatch
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
LARGEST = 50 * 1024 * 1024
"""Bytes of a file that grep looks into."""
LONGEST = 500
"""Characters of a line that are shown."""
BATCH = 500
EXPANSIONS = 64
LEFT_OUT = 20


class Fault(Exception):
    """The request cannot be carried out."""


# ---------------------------------------------------------------- globs


def expand(pattern: str) -> list[str]:
    """`a{b,c}` as `ab` and `ac`."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        one = todo.pop()
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
            continue
        todo.extend(one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(","))
        if len(todo) + len(done) > EXPANSIONS:
            raise Fault(f"pattern: the braces stand for more than {EXPANSIONS} patterns")
    return done


def segments(pattern: str) -> list[str]:
    """A pattern by folders. One without a slash holds at any depth, one that ends in a slash for all below."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    parts = [part for part in pattern.split("/") if part]
    return parts if "/" in pattern else ["**", *parts]


def matches(parts: list[str], pattern: list[str]) -> bool:
    """Whether a path fits a pattern; `**` is any number of folders. All possible positions at once: no backtracking."""
    positions = _skip(pattern, {0})
    for part in parts:
        after: set[int] = set()
        for at in positions:
            if at < len(pattern) and pattern[at] == "**":
                after.add(at)
            elif at < len(pattern) and fnmatch.fnmatchcase(part, pattern[at]):
                after.add(at + 1)
        positions = _skip(pattern, after)
        if not positions:
            return False
    return len(pattern) in positions


def _skip(pattern: list[str], positions: set[int]) -> set[int]:
    reached = set(positions)
    for start in positions:
        stars = itertools.takewhile(lambda part: part == "**", pattern[start:])
        reached.update(range(start, start + len(list(stars)) + 1))
    return reached


# ---------------------------------------------------------------- files


class Walk:
    """The files below a root in a fixed order, or one file alone. It keeps account of what it leaves out."""

    def __init__(self, root: str, pattern: str, only: str | None = None, largest: int = LARGEST) -> None:
        self.root = root
        self.largest = largest
        self.only = only
        self.patterns = [segments(one) for one in expand(pattern)]
        # A folder that is skipped otherwise is entered when the pattern names it.
        self.skipped = SKIPPED - {part for one in self.patterns for part in one}
        self.left_out: list[str] = []

    def path(self, relative: str) -> str:
        return os.path.join(self.root, relative)

    def leave_out(self, relative: str, reason: str | None) -> None:
        if len(self.left_out) < LEFT_OUT:
            self.left_out.append(f"{relative} ({reason or 'unreadable'})")

    def files(self) -> Iterator[str]:
        """Paths relative to the root; links to files are named, links to folders are not followed."""
        stack = [iter(self._entries(""))]
        while stack:
            relative = next(stack[-1], None)
            if relative is None:
                stack.pop()
            elif not os.path.isdir(self.path(relative)):
                if self._wanted(relative):
                    yield relative
            elif not os.path.islink(self.path(relative)):
                if os.path.basename(relative) in self.skipped:
                    self.leave_out(relative, "skipped")
                else:
                    stack.append(iter(self._entries(relative)))

    def _entries(self, folder: str) -> list[str]:
        try:
            names = os.listdir(self.path(folder))
        except OSError as error:
            self.leave_out(folder or ".", error.strerror)
            return []
        return [os.path.join(folder, name) for name in sorted(names, key=os.fsencode)]

    def _wanted(self, relative: str) -> bool:
        parts = relative.split("/")
        return any(matches(parts, pattern) for pattern in self.patterns)

    def texts(self) -> Iterator[str]:
        """The files that are worth a look into: no links, pipes or devices, none too large."""
        for relative in self.files() if self.only is None else [self.only]:
            path = self.path(relative)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            if os.path.getsize(path) > self.largest:
                self.leave_out(relative, f"over {self.largest // 2**20} MiB")
            elif not os.access(path, os.R_OK):
                self.leave_out(relative, "unreadable")
            else:
                yield relative


# ---------------------------------------------------------------- lines

Match = tuple[str, int, str]


def by_python(walk: Walk, pattern: str) -> Iterator[Match]:
    try:
        expression = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Fault(f"pattern: is not a regular expression: {error}") from error
    for relative in walk.texts():
        try:
            with open(walk.path(relative), "rb") as file:
                data = file.read()
        except OSError as error:
            walk.leave_out(relative, error.strerror)
            continue
        if b"\0" in data:
            continue
        lines = data.decode(errors="replace").split("\n")
        if not lines[-1]:
            lines.pop()
        yield from ((relative, number, line) for number, line in enumerate(lines, 1) if expression.search(line))


def by_ripgrep(program: str, walk: Walk, pattern: str, most: int) -> Iterator[Match]:
    options = ("--json", "--no-config", "--no-messages", "--encoding=none", "--threads=1", "--regexp", pattern, "--")
    files = walk.texts()
    batch = list(itertools.islice(files, BATCH)) or [os.devnull]  # to hear what is wrong with the pattern, if anything
    while batch:
        yield from _search((program, *options, *batch), walk.root, most)
        batch = list(itertools.islice(files, BATCH))


def _search(argv: tuple[str, ...], root: str, most: int) -> Iterator[Match]:
    """One run of ripgrep; a file's matches count once its end shows that it is no binary file."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=root, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        try:
            found: list[Match] = []
            for line in process.stdout or ():
                event = json.loads(line)
                data = event["data"]
                if event["type"] == "match" and len(found) < most:
                    found.append((_text(data["path"]), data["line_number"], _text(data["lines"]).removesuffix("\n")))
                elif event["type"] == "end":
                    yield from found if data["binary_offset"] is None else ()
                    found = []
            complaint = process.stderr.read().decode(errors="replace") if process.stderr else ""
            if process.wait() == 2 and "regex" in complaint:
                raise Fault(f"pattern: is not a regular expression: {complaint.strip()[:LONGEST]}")
        finally:
            process.kill()


def _text(value: dict[str, str]) -> str:
    """ripgrep's text, or its bytes when they are not UTF-8."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode(errors="replace")


# ---------------------------------------------------------------- requests


def glob(request: dict[str, Any]) -> dict[str, Any]:
    walk = Walk(request["root"], request["pattern"])
    limit = request["limit"]
    found = list(itertools.islice(walk.files(), limit + 1))
    return {"entries": found[:limit], "truncated": len(found) > limit, "left_out": walk.left_out}


def grep(request: dict[str, Any]) -> dict[str, Any]:
    walk = Walk(request["root"], request["include"], request["only"], request.get("largest", LARGEST))
    limit, pattern = request["limit"], request["pattern"]
    program = shutil.which("rg") if request["engine"] == "ripgrep" else None
    lines = by_ripgrep(program, walk, pattern, limit + 1) if program else by_python(walk, pattern)
    found = list(itertools.islice(lines, limit + 1))
    shown = [{"path": path, "line": line, "text": clipped(text)} for path, line, text in found[:limit]]
    return {"matches": shown, "truncated": len(found) > limit, "left_out": walk.left_out}


def clipped(line: str) -> str:
    line = line.removesuffix("\r")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"glob": glob, "grep": grep}[request["kind"]](request)
    except Fault as fault:
        return {"fault": str(fault)}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
