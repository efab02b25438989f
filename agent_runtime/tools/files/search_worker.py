"""Carry out one search for `glob` or `grep`: a request as JSON on stdin, an answer as JSON on stdout.

The program runs as a confined process of its own, so that a link in the workspace leads nowhere and a search that takes
too long costs that process only. It imports little of the standard library, so that it starts fast. This program
decides which files are searched, in a fixed order and with a list of what it left out; ripgrep matches their lines.
"""

from __future__ import annotations

import binascii
import fnmatch
import itertools
import json
import os
import re
import stat
import sys

TYPE_CHECKING = False  # typing takes as long to load as half of the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    Positions = frozenset[int]
    Test = Callable[[str], object]
    Match = tuple[str, int, str]

SKIPPED_FOLDERS = frozenset({".backups", ".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
MAX_FILE_BYTES = 50 * 1024 * 1024
"""Bytes of a file that grep looks into."""
MAX_LINE_LENGTH = 500
"""Characters of a line that are shown."""
MAX_CHARACTERS = 500_000
"""Characters of one answer; as JSON they may take several times as many bytes."""
RIPGREP = ("rg", "--json", "--no-config", "--no-messages", "--threads=1", "--crlf")  # `$` is the end of any line
LACKING = {
    "--multiline": "a match is within one line; search for a part, or use bash with rg -U",
    "--pcre2": "look-around and references to groups are not known; leave them out, or use bash with grep -P",
}
"""What to do in the place of an option that ripgrep recommends for a pattern."""
FILES_PER_RUN = 500
MAX_EXPANSIONS = 64
MAX_LEFT_OUT = 20
MORE_LEFT_OUT = "... and more"
"""Stands for the names that are not shown."""
SAMPLE_BYTES = 8192
"""Bytes at the beginning of a file in which a null byte marks it as binary, unless there is a byte order mark."""
TEXT_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, which ripgrep reads."""
WIDE_MARK = b"\xff\xfe\0\0"
"""Byte order mark of UTF-32, which it does not read."""


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_CHOICE = re.compile(r"\\[][*?]")
_BRACES = re.compile(r"(?<!\\)\{((?:\\.|[^{}\\])*,(?:\\.|[^{}\\])*)\}", re.DOTALL)
_BETWEEN_SIGNS = re.compile(r"(?:\\.|\{[^{}]*\}|\[[^]]*\]|[^,|])+", re.DOTALL)
_ONE_CHOICE = re.compile(r"(?<!\\)\{((?:\\.|[^{},\\])*)\}", re.DOTALL)
_NEGATED = re.compile(r"(?<!\[)\[\^(?=[^]])")
"""A choice of all but some characters as shells and ripgrep write it; `fnmatch` knows `[!` only."""


class SearchFault(Exception):
    """The request cannot be carried out: it is `invalid`, or what it needs is `unavailable`."""

    def __init__(self, text: str, kind: str = "invalid") -> None:
        super().__init__(text)
        self.kind = kind


# ---------------------------------------------------------------- globs


def expand_braces(pattern: str) -> list[str]:
    """Expand `a{b,c}` to `ab` and `ac`. Raises SearchFault if there are too many."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        one = todo.pop()
        found = _BRACES.search(one)
        if found is None:
            done.append(one)
            continue
        todo.extend(one[: found.start()] + choice + one[found.end() :] for choice in re.split(r"(?<!\\),", found[1]))
        if len(todo) + len(done) > MAX_EXPANSIONS:
            raise SearchFault(f"pattern: the braces stand for more than {MAX_EXPANSIONS} patterns")
    return done


def other_reading(pattern: str) -> list[str]:
    """Return the patterns that other programs see in this one: two in `*.md, *.py`, `*.md|*.py` and `*.md *.py`, and
    `*.py` in `*.{py}`. Empty if there is nothing else in it."""
    several = [one.strip() for one in _BETWEEN_SIGNS.findall(pattern) if one.strip()]
    if len(several) == 1 and all("*" in one for one in pattern.split()):  # a name may have blanks
        several = pattern.split()
    plain = [_ONE_CHOICE.sub(r"\1", one) for one in several]
    return [] if plain == [pattern] else plain


def below_folders(patterns: list[str]) -> list[str]:
    """Return patterns for all below the folders that are called so, except where that may be a part of a name."""
    split = [split_pattern(one) for one in patterns]
    return ["/".join((*parts, "**")) for parts in split if not {"*", "?"} & set("".join(parts[-1:]))]


def split_pattern(pattern: str) -> list[str]:
    """Split a pattern at its slashes. Without a slash it fits at any depth; one that ends in a slash fits all below."""
    pattern = pattern.removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    parts = [part for part in pattern.split("/") if part]
    return parts if "/" in pattern else ["**", *parts]


SIGN_FORMS: dict[int, str] = {}
"""What keyboards have in the place of a quote, blank or dash; the request brings it."""


def plain_name(name: str) -> str:
    """Return the form of a name that all names have that read the same, as the tools that take paths have it."""
    if name.isascii():
        return name
    import unicodedata

    return unicodedata.normalize("NFC", name).translate(SIGN_FORMS)


def name_test(part: str, literal: bool | None) -> Test:
    """Return the test of one name in its plain form. Brackets are a choice of characters, or stand for themselves if
    `literal`; None: either of them. A sign after a backslash stands for itself, and then brackets without one are a
    choice."""
    part = plain_name(part)
    plain = _ESCAPED.sub(lambda found: f"[{found[1]}]" if found[1] in "[*?" else found[1], part)
    name = plain.replace("[", "[[]")
    choice = _NEGATED.sub("[!", plain)
    patterns = [choice] if literal is False or _ESCAPED_CHOICE.search(part) else [name] if literal else [choice, name]
    return re.compile("|".join(map(fnmatch.translate, patterns))).match


class Glob:
    """Match paths folder by folder; `**` is any number of folders. All positions in the pattern that a path may have
    reached are followed at once: nothing is tried twice, and a folder in which nothing can fit is not entered."""

    def __init__(self, parts: list[str], literal: Mapping[str, bool | None]) -> None:
        """`literal`: what brackets mean in the parts that have any, as for `name_test`."""
        self._parts = parts
        self._end = len(parts)
        self._any = [part == "**" for part in parts]
        self._tests: list[Test] = [name_test(part, literal.get(part, False)) for part in parts]
        self.start = self._reachable([0])

    def descend(self, at: Positions, folder: str) -> Positions:
        """Return the positions below a folder of that name; an empty set if nothing in it can fit."""
        after = [
            self._next_position(one) for one in at if one < self._end and (self._any[one] or self._tests[one](folder))
        ]
        return self._reachable(after) - {self._end}

    def parts_at(self, at: Positions) -> set[str]:
        """Return the parts of the pattern that a name at these positions may have to fit."""
        return {self._parts[one] for one in at if one < self._end}

    def name_tests(self, at: Positions) -> list[Test]:
        """Return the tests of which a file's name must pass one at these positions."""
        last = [one for one in at if one < self._end and self._end in self._reachable([self._next_position(one)])]
        return [self._tests[one] for one in last]

    def _next_position(self, position: int) -> int:
        return position if self._any[position] else position + 1

    def _reachable(self, positions: Iterable[int]) -> Positions:
        """Add the positions after each `**`, which also fits no folder at all."""
        reached: set[int] = set()
        for start in positions:
            stars = itertools.takewhile(bool, self._any[start:])
            reached.update(range(start, start + len(list(stars)) + 1))
        return frozenset(reached)


# ---------------------------------------------------------------- files


class Walk:
    """List the files below a root in a fixed order, or one file alone, and note what is left out."""

    def __init__(
        self,
        root: str,
        pattern: str,
        only: str | None = None,
        max_file_bytes: int = MAX_FILE_BYTES,
        excluded: Iterable[str] = (),
    ) -> None:
        self.root = root
        self.max_file_bytes = max_file_bytes
        self.only = only
        self.excluded = frozenset(excluded)
        self._look_for([pattern])
        others = other_reading(pattern)
        for patterns in (others, below_folders(others or [pattern])) if only is None else ():
            if patterns and next(self.files(), None) is None:  # nor is there a name with a comma
                self._look_for(patterns)
        self.left_out: list[str] = []

    def _look_for(self, patterns: Iterable[str]) -> None:
        split = [split_pattern(one) for pattern in patterns for one in expand_braces(pattern)]
        # A folder that is skipped otherwise is entered when the pattern names it.
        self.skipped = SKIPPED_FOLDERS - {part for one in split for part in one}
        self.left_out = []
        self._literal_tests: dict[str, Test] = {}
        self._found_literal: set[str] = set()
        self.patterns = self._globs(split)

    def _globs(self, patterns: list[list[str]]) -> list[Glob]:
        """Return the patterns, in which brackets stand for themselves where a name is written so: `[id]` is a folder in
        many web frameworks, and a folder `d` would be the wrong one."""
        bracketed = {part for parts in patterns for part in parts if "[" in part}
        if not bracketed or self.only is not None:
            return [Glob(parts, {}) for parts in patterns]
        self._literal_tests = {part: name_test(part, True) for part in bracketed}
        self.patterns = [Glob(parts, dict.fromkeys(bracketed)) for parts in patterns]
        for _ in self.files():
            pass
        self._literal_tests = {}
        return [Glob(parts, dict.fromkeys(self._found_literal, True)) for parts in patterns]

    def absolute_path(self, relative: str) -> str:
        return os.path.join(self.root, relative)

    def add_left_out(self, relative: str, reason: str | None) -> None:
        if len(self.left_out) < MAX_LEFT_OUT:
            self.left_out.append(f"{relative} ({reason or 'unreadable'})")
        elif len(self.left_out) == MAX_LEFT_OUT:
            self.left_out.append(MORE_LEFT_OUT)

    def files(self) -> Iterator[str]:
        """Yield paths relative to the root. Links to files are named, links to folders are not followed."""
        stack = [self._scan_folder("", [pattern.start for pattern in self.patterns])]
        while stack:
            relative, below = next(stack[-1], ("", None))
            if not relative:
                stack.pop()
            elif below is None:
                yield relative
            else:
                stack.append(self._scan_folder(relative, below))

    def _scan_folder(self, folder: str, at: list[Positions]) -> Iterator[tuple[str, list[Positions] | None]]:
        """Yield the files of a folder that fit, and the folders to enter with the patterns' positions below them."""
        try:
            with os.scandir(self.absolute_path(folder)) as listing:
                found = sorted(listing, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self.add_left_out(folder or ".", error.strerror)
            return
        parts = {part for pattern, where in zip(self.patterns, at, strict=True) for part in pattern.parts_at(where)}
        literal = {part: test for part, test in self._literal_tests.items() if part in parts}
        tests = [test for pattern, where in zip(self.patterns, at, strict=True) for test in pattern.name_tests(where)]
        for entry in found:
            name = plain_name(entry.name)
            self._found_literal |= {part for part, test in literal.items() if test(name)}
            relative = os.path.join(folder, entry.name)
            if not _is_folder(entry):
                if any(test(name) for test in tests):
                    yield relative, None
                continue
            below = [pattern.descend(where, name) for pattern, where in zip(self.patterns, at, strict=True)]
            if not any(below):
                continue
            if entry.is_symlink() or name in self.skipped:
                self.add_left_out(relative, "a link" if entry.is_symlink() else "skipped")
            else:
                yield relative, below

    def searchable_files(self, *, ascii_only: bool) -> Iterator[str]:
        """Yield regular files that are readable and not too large; no links, pipes or devices. Unless ASCII only is
        looked for, those in which nothing else is found are noted, too."""
        for relative in self.files() if self.only is None else [self.only]:
            if relative in self.excluded:
                continue
            path = self.absolute_path(relative)
            try:
                about = os.lstat(path)
            except OSError:  # removed meanwhile
                continue
            if not stat.S_ISREG(about.st_mode):
                self.add_left_out(relative, "a link" if stat.S_ISLNK(about.st_mode) else "no regular file")
            elif about.st_size > self.max_file_bytes:
                self.add_left_out(relative, f"over {self.max_file_bytes // 2**20} MiB")
            elif (reason := unsearchable(path)) is not None:
                self.add_left_out(relative, reason)
            else:
                if not ascii_only and has_other_encoding(path):
                    self.add_left_out(relative, "not UTF-8, so only ASCII is found")
                yield relative


def unsearchable(path: str) -> str | None:
    """Return why a file's lines cannot be searched; None if they can."""
    try:
        with open(path, "rb") as file:
            sample = file.read(SAMPLE_BYTES)
    except OSError:
        return "unreadable"
    marked = sample.startswith(TEXT_MARKS) and not sample.startswith(WIDE_MARK)
    return "binary" if b"\0" in sample and not marked else None


def has_other_encoding(path: str) -> bool:
    """Return whether a file is neither UTF-8 nor marked as UTF-16."""
    try:
        with open(path, "rb") as file:
            if file.read(2) in TEXT_MARKS:
                return False
        with open(path, encoding="utf-8", newline="") as text:
            while text.read(SAMPLE_BYTES):
                pass
    except UnicodeDecodeError:
        return True
    except OSError:  # removed meanwhile
        return False
    return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()  # known from the listing, except for links
    except OSError:  # a link in a circle, or to a folder without permission
        return False


# ---------------------------------------------------------------- lines


def matching_lines(walk: Walk, pattern: str, max_matches: int) -> Iterator[Match]:
    """Yield matches in the order of the walk, at most `max_matches` of a file. Raises SearchFault."""
    _check_pattern(walk.root, pattern)
    argv = (*RIPGREP, "--regexp", _with_rest_of_line(pattern), "--")
    files = walk.searchable_files(ascii_only=pattern.isascii())
    while batch := list(itertools.islice(files, FILES_PER_RUN)):
        yield from _run_ripgrep((*argv, *batch), walk, max_matches)


def _check_pattern(root: str, pattern: str) -> None:
    """Raise SearchFault if ripgrep is not there, or does not take the pattern."""
    import subprocess

    argv = (*RIPGREP, "--regexp", pattern, "--", os.devnull)
    try:
        done = subprocess.run(argv, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError as error:
        if error.filename != argv[0]:  # the folder is gone
            raise
        raise SearchFault("grep needs ripgrep (rg), which is not installed; search with bash", "unavailable") from None
    complaint = done.stderr.decode(errors="replace")
    for option, fault in LACKING.items():
        if done.returncode == 2 and f"with the {option} flag" in complaint:
            raise SearchFault(f"pattern: {fault}")
    if done.returncode == 2 and "regex" in complaint:
        raise SearchFault(f"pattern: is not a regular expression: {complaint.strip()[:MAX_LINE_LENGTH]}")


def _with_rest_of_line(pattern: str) -> str:
    """Return a pattern that finds the same lines, once each. ripgrep tells every match of a line: a long one may have
    a million, each of which would cost it and us some hundred bytes."""
    may_end_in_comment = "(?" in pattern and "#" in pattern
    return pattern if may_end_in_comment else f"(?:{pattern}).*"


def _run_ripgrep(argv: tuple[str, ...], walk: Walk, max_matches: int) -> Iterator[Match]:
    """Run ripgrep once. A file's matches count once its end shows that it is no binary file."""
    import subprocess

    nothing = subprocess.DEVNULL
    process = subprocess.Popen(argv, cwd=walk.root, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing)
    with process:
        try:
            found: list[Match] = []
            for line in process.stdout or ():
                event = json.loads(line)  # noqa: TID251  a line of ripgrep, in a process of its own
                data = event["data"]
                if event["type"] == "match" and len(found) < max_matches:
                    text = _clipped_line(data["lines"], data["submatches"])
                    found.append((_decode_text(data["path"]), data["line_number"], text))
                elif event["type"] == "end":
                    if data["binary_offset"] is None:
                        yield from found
                    else:
                        walk.add_left_out(_decode_text(data["path"]), "binary")
                    found = []
        finally:
            process.kill()


def _decode_text(value: dict[str, str]) -> str:
    """Return the text of a value of ripgrep, which gives base64 where it is not UTF-8."""
    return value["text"] if "text" in value else _encode_value(value).decode(errors="replace")


def _clipped_line(lines: dict[str, str], submatches: list[dict[str, Any]]) -> str:
    """Return the line, or the part of it around its first match."""
    text = _decode_text(lines).removesuffix("\n").removesuffix("\r")
    if len(text) <= MAX_LINE_LENGTH:
        return text
    at = submatches[0]["start"] if submatches else 0  # in bytes
    before = _encode_value(lines)[:at].decode(errors="replace")
    first = max(0, min(len(before) - MAX_LINE_LENGTH // 4, len(text) - MAX_LINE_LENGTH))
    last = first + MAX_LINE_LENGTH
    return ("..." if first else "") + text[first:last] + ("..." if last < len(text) else "")


def _encode_value(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else binascii.a2b_base64(value["bytes"])


# ---------------------------------------------------------------- requests


def glob(request: dict[str, Any]) -> dict[str, Any]:
    walk = Walk(request["root"], request["pattern"])
    found, more = _limit_results(walk.files(), request["limit"], len)
    return {"entries": found, "truncated": more, "left_out": walk.left_out}


def grep(request: dict[str, Any]) -> dict[str, Any]:
    largest = request.get("largest", MAX_FILE_BYTES)
    excluded = request.get("excluded", ())
    walk = Walk(request["root"], request["include"], request["only"], largest, excluded)
    limit = request["limit"]
    lines = matching_lines(walk, request["pattern"], limit + 1)
    found, more = _limit_results(lines, limit, lambda match: len(match[0]) + len(match[2]))
    shown = [{"path": path, "line": line, "text": text} for path, line, text in found]
    return {"matches": shown, "truncated": more, "left_out": walk.left_out}


def _limit_results(found: Iterator[Any], limit: int, size: Callable[[Any], int]) -> tuple[list[Any], bool]:
    """Return the first results, up to `limit` and MAX_CHARACTERS, and whether there are more."""
    kept: list[Any] = []
    left = MAX_CHARACTERS
    for one in found:
        left -= size(one)
        if len(kept) == limit or left < 0:
            return kept, True
        kept.append(one)
    return kept, False


def handle_request(request: dict[str, Any]) -> dict[str, Any]:
    SIGN_FORMS.update((int(sign), form) for sign, form in request.get("sign_forms", {}).items())
    try:
        return {"glob": glob, "grep": grep}[request["kind"]](request)
    except SearchFault as fault:
        return {"fault": str(fault), "kind": fault.kind}


if __name__ == "__main__":
    json.dump(handle_request(json.load(sys.stdin)), sys.stdout)  # noqa: TID251  a line of ripgrep, in a process of its own
