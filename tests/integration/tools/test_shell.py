"""What the reader of shell scripts says a script runs, held against what bash does run.

Commands are names that are not there: bash then calls a function of ours, which writes down what would have run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_runtime.tools.shell import commands
from agent_runtime.tools.shell_words import Word

NOTE = '() { printf "%s\\0" "$@" :END: >> "$NOTES"; [[ $SECONDS -lt 1 ]] || kill -9 $$; return 1; }'


def run(script: str, folder: Path) -> list[list[str]]:
    """The commands that bash runs, as lists of words."""
    notes, at = folder / "notes", folder / "at"
    notes.write_text("")
    at.mkdir(exist_ok=True)
    (at / "x").write_text("y\n")
    env = {"PATH": "/none", "NOTES": str(notes), "LANG": "C.UTF-8", "BASH_FUNC_command_not_found_handle%%": NOTE}
    # Its output is a pipe that everything in the background holds too: it ends when the last of them does.
    bash = subprocess.Popen(
        ["/bin/bash", "-c", script],
        cwd=at,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with suppress(subprocess.TimeoutExpired):
        bash.communicate(timeout=3)
    with suppress(ProcessLookupError):
        os.killpg(bash.pid, signal.SIGKILL)
    bash.communicate()
    return [one[:-1].split("\0") for one in notes.read_text(errors="replace").split(":END:\0") if one.endswith("\0")]


def told(argv: list[str], script: str) -> bool:
    read = commands(script)
    first = Word(argv[0]).shown
    if read.opaque or " ".join(Word(one).shown for one in argv) in read.texts:
        return True
    return read.vague and any(text == first or text.startswith(f"{first} ") for text in read.texts)


# Each of these once hid a command, or words of one, behind what the parser made of the text.
FOUND = [
    "[a = b ]; a",
    "\\ git",
    "a || b -f >>x z || c",
    "if >x a; then b; fi & c 1 || d -f >>x z || e",
    "1=1 >x a",
    "a 2>&-1",
    "a <<'E'-v\nE\n",
    "a;{}",
    "a =='b'",
    "{ [ a =\nb-- ]; c; }",
    "a || !{b}",
    'a "$\\\n(b)"',
    "a -<<E\nE\n",
    "a -f2>&1",
    "A=$ a b",
    "*a[1]= b",
    "[ a&= b ] & c",
    "a - <<'E'\nE\n",
    "a <<E\n$(b) `c`\nE\n",
]


@pytest.mark.parametrize("script", FOUND)
def test_what_the_parser_misreads_is_not_trusted(script: str, tmp_path: Path) -> None:
    ran = run(script, tmp_path)
    assert ran
    assert all(told(argv, script) for argv in ran)


WORDS = ["x", "-f", "'a b'", '"c;d"', "$x", '"$x"', "a\\ b", "$'g'", "a#b", '"$(b)"', "`c`", "<(d)", "${x:-$(e)}", "*"]
SIMPLE = st.builds(
    lambda before, name, arguments, after: f"{before}{name} {' '.join(arguments)}{after}",
    st.sampled_from(["", "", "", "A=1 ", ">x ", "! ", "time ", "command "]),
    st.sampled_from("abcde"),
    st.lists(st.sampled_from(WORDS), max_size=2),
    st.sampled_from(["", "", "", " >y", " 2>&1 z", " <<< w", " <<E\n$(a)\nE\n", " <<'E' | b\n$(a)\nE\n"]),
)
SHAPES = [
    *("({0})", "{{ {0}; }}", 'f "$({0})"', "if {0}; then {1}; else {0}; fi", "for i in x y; do {0}; done", "{0} | {1}"),
    *("case x in a) {0};; *) {1};; esac", "f() {{ {0}; }}; {1}", "{0} && {1}", "{0} || {1}", "{0}; {1}"),
    *("{0}\n{1}", "{0} & {1}"),
    *("[ a = b ] || {0}", "[[ a == b ]] || {0}", "{0}|&{1}", "{0} && \\\n {1}"),
]
SCRIPTS = st.recursive(
    SIMPLE,
    lambda inner: st.builds(lambda shape, a, b: shape.format(a, b), st.sampled_from(SHAPES), inner, inner),
    max_leaves=4,
)
STRAY = [
    *" \n;&|()`\"'\\#<>$={}![]*-",
    "\\\n",
    "$(",
    "<<E\n",
    "\nE\n",
    "2>&1",
    ">x",
    "((",
    "esac",
    "then ",
    "$'",
    " #",
    "git",
]
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from(STRAY), st.booleans()), max_size=3)


def changed(script: str, changes: list[tuple[float, str, bool]]) -> str:
    """The script with something put in or taken out."""
    pieces = re.findall(r"\w+|.", script, re.DOTALL)
    for where, stray, insert in changes:
        at = int(where * len(pieces))
        pieces[at : at + (not insert)] = [stray] if insert else []
    return "".join(pieces)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCRIPTS, CHANGES)
def test_what_bash_runs_was_told_or_nothing_was_promised(
    tmp_path: Path, script: str, changes: list[tuple[float, str, bool]]
) -> None:
    script = changed(script, changes)
    if not commands(script).opaque:
        assert all(told(argv, script) for argv in run(script, tmp_path)), script
