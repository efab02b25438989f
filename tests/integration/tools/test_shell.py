"""What the reader of shell scripts promises, held against what bash runs.

The commands are small programs of ours that write down how they were called; names that are not there come to a
function that does the same. Whatever is promised about a script must hold for what is written down.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_common.protocol import Rule
from agent_common.protocol.authority import Access, decide, matches
from agent_runtime.tools.shell.script import parse_commands
from agent_runtime.tools.shell.words import quote_word
from tests.redteam.bash_scripts import ATTACKS, VARIABLES

NOTE = 'printf \'%s\\0\' "$@" :END: >> "$NOTES"'
STUBS = {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0, "git": 0, "ls": 0, "cat": 0}
"""Commands and how they end."""
REAL = ("bash", "sh", "env", "timeout", "nice", "xargs", "find", "sleep", "nohup")
NARROW = ("git status", "ls", "echo *")


class Ground:
    """A folder with files, and a PATH of commands that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self._notes, self._at, self._bin = folder / "notes", folder / "at", folder / "bin"
        self._bin.mkdir()
        # Behind a pipe `time` is a program and no keyword.
        programs = {"time": '[ "$1" != -p ] || shift; exec "$@"'}
        programs |= {name: f'set -- {name} "$@"; {NOTE}; exit {status}' for name, status in STUBS.items()}
        for name, program in programs.items():
            (self._bin / name).write_text(f"#!/bin/sh\n{program}\n")
            (self._bin / name).chmod(0o755)
        for name in REAL:
            (self._bin / name).symlink_to(shutil.which(name) or "/none")
        self._env = {
            "PATH": str(self._bin),
            "NOTES": str(self._notes),
            "LANG": "C.UTF-8",
            "BASH_FUNC_command_not_found_handle%%": f"() {{ {NOTE}; [[ $SECONDS -lt 1 ]] || kill -9 $$; return 1; }}",
        }

    def run(self, script: str) -> list[list[str]]:
        """The commands that bash runs, as lists of words."""
        shutil.rmtree(self._at, ignore_errors=True)
        self._at.mkdir()
        for name in ("x", "xy", "y"):
            (self._at / name).write_text("y\n")
        self._notes.write_text("")
        # Its output is a pipe that everything in the background holds too: it ends when the last of them does.
        bash = subprocess.Popen(
            ["/bin/bash", "-c", script],
            cwd=self._at,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with suppress(subprocess.TimeoutExpired):
            bash.communicate(timeout=30)
        with suppress(ProcessLookupError):
            os.killpg(bash.pid, signal.SIGKILL)
        bash.communicate()
        notes = self._notes.read_text(errors="replace")
        return [one[:-1].split("\0") for one in notes.split(":END:\0") if one.endswith("\0")]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ground"))


def text(argv: list[str]) -> str:
    return " ".join(map(quote_word, argv))


def begins(argv: list[str], start: str) -> bool:
    """Whether the command begins so. A glob that fits no file is left as it is, and is not quoted in what begins."""
    if not argv:
        return not start
    return any(
        f"{word} ".startswith(start) or (start.startswith(f"{word} ") and begins(argv[1:], start[len(word) + 1 :]))
        for word in {argv[0], quote_word(argv[0])}
    )


def told(argv: list[str], script: str) -> bool:
    """Whether the reader has named this command."""
    read = parse_commands(script)
    # Our command is a file, which a shell may also be given to run.
    calls = (argv, ["bash", *argv], ["sh", *argv])
    # What is filled in may be nothing: `a ` may be `a` alone, which a rule for `a *` is about too.
    return any(text(one) in read.texts or any(begins(one, start) for start in read.starts.values()) for one in calls)


def allowed(script: str, *patterns: str) -> bool:
    """Whether rules for these patterns, and no others, let the script run."""
    read = parse_commands(script)
    rules = [Rule(permission="bash", pattern=one, action="allow", source="manifest") for one in patterns]
    access = Access("bash", subjects=read.texts or (script,), starts=read.starts, opaque=bool(read.opaque))
    return decide(rules, access).action == "allow"


# ---------------------------------------------------------------- attacks


@pytest.mark.parametrize("script", [*ATTACKS, *(f"{name}=x git status" for name in VARIABLES)])
def test_no_attack_is_allowed_by_narrow_rules(script: str) -> None:
    assert not allowed(script.replace("PLANT", "e planted"), *NARROW)


@pytest.mark.slow
def test_the_attacks_are_real(ground: Ground) -> None:
    """Each of them does run the command that it hides."""
    failed = [one for one in ATTACKS if ["e", "planted"] not in ground.run(one.replace("PLANT", "e planted"))]
    assert failed == []


# ---------------------------------------------------------------- scripts that are made up

WORDS = [
    *("x", "-f", "'a b'", '"c;d"', "a\\ b", "a#b", "'$x'", '"a$ b"', '"\\$x"', "*", "x*", "[xy]", "?", "é", "'", "$x"),
    *("{}", "{x}", "{x,y}", "~", "a=1", "HEAD~1", "'a\nb'", "1", "\\;", "=", "!", "[", "]", "%1", '"$x"', "$(e)"),
]
BEFORE = [
    *("LANG=C ", "TZ='UTC' ", "CI=1 ", "A=1 ", "RANDOM=1 ", ">y ", "2>&1 ", "<x ", "! ", "time ", "time -p "),
    *(
        "env ",
        "env LANG=C ",
        "env A=1 ",
        "timeout 5 ",
        "timeout -k 1 5 ",
        "nice ",
        "nice -n 5 ",
        "xargs ",
        "xargs -n1 ",
    ),
    *("bash -c ", "find . -name x -exec ", "command ", "exec ", "builtin ", "nohup ", "'time' ", "\\env ", "./"),
]
AFTER = [
    *(" >y", " >>y 2>&1", "<x", " &>y", ">|y", " 2>y z", " # c", " {} \\;", " {} +", " <<< w", " >*", "&", " \\\n x"),
    *(" <<'E'\n$(e)\nE\n", ' <<-"E" | e\n\t$(e)\n\tE\n', " <<E\n$(e)\nE\n"),
]
SIMPLE = st.builds(
    lambda before, name, arguments, after: f"{before}{name} {' '.join(arguments)}{after}",
    st.sampled_from([""] * len(BEFORE) + BEFORE),
    st.sampled_from([*"abcde", "git", "echo", "printf", "test", "cd", ":", "true"]),
    st.lists(st.sampled_from(WORDS), max_size=2),
    st.sampled_from([""] * len(AFTER) + AFTER),
)
SHAPES = [
    *(
        "{0} | {1}",
        "{0} && {1}",
        "{0} || {1}",
        "{0}; {1}",
        "{0}\n{1}",
        "{0} && \\\n {1}",
        "{0} |\n {1}",
        "{0}\n\n# x\n{1}",
    ),
    *("{0}|{1}", "{0};{1};", "{0} &&\n{1}", "({0})", "{{ {0}; }}", 'f "$({0})"', "if {0}; then {1}; fi", "{0} & {1}"),
    *("for i in x y; do {0}; done", "f() {{ {0}; }}; {1}", "bash -c '{0}'; {1}", "case x in a) {0};; *) {1};; esac"),
]
SCRIPTS = st.recursive(
    SIMPLE,
    lambda inner: st.builds(lambda shape, a, b: shape.format(a, b), st.sampled_from(SHAPES), inner, inner),
    max_leaves=4,
)
STRAY = [
    *" \n;&|()`\"'\\#<>$={}![]*-~",
    "\\\n",
    "$(",
    "<<'E'\n",
    "\nE\n",
    "2>&1",
    ">x",
    "((",
    "then ",
    "$'",
    " #",
    "git",
]
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(STRAY), st.booleans()), max_size=3)
PATTERNS = st.lists(st.sampled_from(["a *", "b", "b -f", "c x*", "d ?", "e ? *", "git *", "echo *", "? x"]), max_size=6)


def changed(script: str, changes: list[tuple[float, str, bool]]) -> str:
    """The script with something put in or taken out."""
    pieces = re.findall(r"\w+|.", script, re.DOTALL)
    for where, stray, insert in changes:
        at = int(where * len(pieces))
        pieces[at : at + (not insert)] = [stray] if insert else []
    return "".join(pieces)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCRIPTS, CHANGES, PATTERNS)
def test_what_a_narrow_rule_allows_runs_only_that(
    ground: Ground, script: str, changes: list[tuple[float, str, bool]], patterns: list[str]
) -> None:
    script = changed(script, changes)
    if parse_commands(script).opaque:
        return
    ran = [argv for argv in ground.run(script) if argv[0]]
    assert all(told(argv, script) for argv in ran), script
    if allowed(script, *patterns):
        forms = [(text(argv), " ".join(argv)) for argv in ran]
        assert all(any(matches(one, form) for one in patterns for form in both) for both in forms), script
