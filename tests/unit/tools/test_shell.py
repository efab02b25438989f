"""What a shell command line runs, told from its text."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.tools.shell import LIMIT, Commands, commands

READ = [
    ("git status", ["git status"]),
    ("  git   status\t-s  # why\n", ["git status -s"]),
    ("FOO=1 git status", ["git status"]),
    ("git status; ls\nid & w", ["git status", "ls", "id", "w"]),
    ("a && b || c | d |& e", ["a", "b", "c", "d", "e"]),
    ("(a; b) ; { c; }", ["a", "b", "c"]),
    ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
    ("for i in 1 2; do a; done; while b; do c; done; until d; do e; done", ["a", "b", "c", "d", "e"]),
    ("case x in y|z) a;; *) b;; esac", ["a", "b"]),
    ("f() { a; }; f; function g { b; }", ["a", "f", "b"]),
    ("! a; [[ x == y ]] && [ -f z ] && b", ["a", "[[ x == y ]]", "[ -f z ]", "b"]),
    ('echo $(a) `b` <(c) "$(d)" ${x:-$(e)}', ["a", "b", "c", "d", "e"]),
    ("cat <<E\nx $(a) $(b)\nE\n", ["cat", "a", "b"]),
    ("cat <<'E'\n$(a) `b`\nE\n", ["cat"]),
    ("cat <<-E | a && b\n\tx\n\tE\n", ["cat", "a", "b"]),
    ("cat <<< $(a)", ["cat", "a"]),
    ("git commit -m \"$(cat <<'E'\nit's done\nE\n)\"", ["cat"]),
    ("git \\\n  status", ["git status"]),
    (">x rm y", ["rm y"]),
    ("rm >x y 2>&1 z", ["rm y z"]),
    ("g\"i\"t 'st'atus", ["git status"]),
    ("\\git st\\atus", ["git status"]),
    ("$'g\\x69\\164' $'a\\nb'", ["git 'a\nb'"]),
    ("git 'a b' \"c;d\" '' {} HEAD~1 stash@{0}", ["git 'a b' 'c;d' '' {} 'HEAD~1' 'stash@{0}'"]),
    ("a=$(b) c=(d $(e))", ["b", "e"]),
    ("echo $((1 + 2)) ${#x} ${x%y}", ["echo $((1 + 2)) ${#x} ${x%y}"]),
    ("while IFS= read -r line; do a; done < x", ["read -r line", "a"]),
    ("set -euo pipefail; export A=1", ["set -euo pipefail", "export A=1"]),
    # programs that run programs
    ("env -u A B=1 git x", ["env -u A B=1 git x", "git x"]),
    ("sudo -n nice -n 5 timeout -k 1 5 nohup setsid git x", ["git x"]),
    ("command git x; builtin cd y; exec git z; time -p git w", ["git x", "cd y", "git z", "git w"]),
    ("ls | xargs -0 -n1 git x", ["git x {}"]),
    ("find . -name x -exec git y {} \\; -execdir rm {} +", ["git y {}", "rm {}"]),
    ("bash -c 'git x; sh -ec \"rm y\"'", ["git x", "sh -ec 'rm y'", "rm y"]),
    ("trap 'rm x' EXIT", ["rm x"]),
    ("command -v git", ["command -v git"]),
]


@pytest.mark.parametrize(("script", "found"), READ)
def test_every_command_is_found(script: str, found: list[str]) -> None:
    read = commands(script)
    assert not read.opaque
    missing = [text for text in found if text not in read.texts]
    assert not missing, read.texts


OPAQUE = [
    # the name is not in the text
    "$X foo",
    "r$(echo m) x",
    "`a`",
    "{rm,-rf,/}",
    "r? x",
    "~/x y",
    "$'\\xff'",
    '$"rm" x',
    "r{m,n}",
    "@(rm) x",
    # text becomes a program
    "eval rm x",
    "source x",
    ". x",
    "alias git=rm",
    'bash -c "$X"',
    "sh -c 'a'\"$X\"",
    "curl x | bash",
    "bash -s x",
    "bash -i",
    "sh -c 'echo &>x rm'",
    "exec -a git rm",
    "env -S 'rm x'",
    "env $X git",
    "timeout $X git",
    "xargs sh",
    "xargs $X",
    "find $X",
    "find . -exec sh -c 'a {}' \\;",
    "xargs -I% sh -c 'a %'",
    'trap "$X" EXIT',
    "coproc a",
    "parallel a",
    "watch a",
    "ssh host rm",
    "zsh -c a",
    "shopt -s expand_aliases",
    "enable -f x y",
    "hash -p x git",
    "bind -x a",
    "mapfile -C a b",
    "jobs -x a",
    "set -k",
    "complete -C a b",
    "su -c rm",
    "printf -v 'a[$(rm)]' x",
    "xargs --unknown git",
    # variables that decide what a name means
    "PATH=x git y",
    "LD_PRELOAD=x git",
    "BASH_ENV=x bash -c a",
    "IFS=x; git",
    "export PATH=x",
    "env PATH=x git",
    "GIT_SSH_COMMAND=x git fetch",
    "read PATH",
    "for PATH in x; do git; done",
    ": ${PATH:=x}",
    "unset PATH",
    "declare -n r=PATH",
    "sudo LD_PRELOAD=x git",
    "printf -v PATH x",
    "local -i x=1",
    "export $X",
    "HOME=x git y",
    "NODE_OPTIONS=x node y",
    # values that are evaluated
    "echo $((x))",
    "((x=1))",
    "for ((i=x;;)); do a; done",
    "echo ${a[x]}",
    "a[x]=1",
    "echo ${!x}",
    "echo ${x@P}",
    "echo ${x:y}",
    "[[ $x -eq 1 ]]",
    "[[ -v $x ]]",
    "test -v x",
    "[ $x = 1 ]",
    "let x=1",
    "echo $[x]",
    "unset 'a[$(rm)]'",
    "read 'a[$(rm)]'",
    # what the parser and bash may read differently
    "gi\\\nt x",
    "git\\ x\\\n y\\\nz",
    "a\rb",
    "a\0b",
    "a\u00a0b\u2003c",
    "a\ufeffb",
    "a\vb",
    "\\ git",
    "echo `a \\`b\\``",
    "[a = b ]",
    "[ a > b ]",
    "{} x",
    "a |& b; {a; }",
    "cat <<A <<B\nA\nB\n",
    "cat <<E\nx\\\nE\nrm\nE\n",
    "cat <<E\nx",
    "cat <<E'F'\nEF\n",
    "echo ${x:-'$(rm)'}",
    "echo \"${x:-'`rm`'}\"",
    "echo $(( '$(rm)' ))",
    "rm2>&-1",
    "a {fd}>x",
    "cat <<'E'-v\nE\n",
    "time ! a b",
    "a > $X",
    "a &> x*",
    "if a",
    "a )",
    "'a",
    '"a',
    "$(a",
    "((a); b)",
    "!{a}",
    "A=$ a x",
    "a -f2>&1",
    'a "$\\\n(rm)"',
    "a -<<E\nE\n",
    "a -f<<'E'\nE\n",
    "! ! a",
    "1a=2 b",
    "b =='a'",
    "[ a =\nb ]",
    # bounds
    "a;" * 40_000,
    "$(" * 5000 + "a" + ")" * 5000,
    "<" * 50_000,
    "a=(" * 20_000,
    "(" * 50_000,
    "x" * (LIMIT + 1),
    "a " + "'b' " * 31_000,
]


@pytest.mark.parametrize("script", OPAQUE, ids=lambda script: script[:40].encode("ascii", "backslashreplace").decode())
def test_what_cannot_be_known_is_opaque(script: str) -> None:
    before = time.monotonic()
    assert commands(script).opaque
    assert time.monotonic() - before < 10


BEYOND_ASCII = """\
from agent_runtime.tools.shell import commands
for number in (0x100, 0x4e2d, 0x1f600, 0x9d709, 0x10ffff):
    for form in ("echo {0}", "{0} x", "{0}=1", "echo ${0}", "cat <<{0}\\nx\\n{0}\\n", "{0}{{", "{{{0}}}"):
        commands(form.format(chr(number)))
"""


def test_no_character_kills_the_process() -> None:
    """Where memory lies differs from life to life, so it takes several to be sure."""
    lives = [subprocess.run([sys.executable, "-c", BEYOND_ASCII], check=False) for _ in range(6)]
    assert [life.returncode for life in lives] == [0] * 6


def test_the_text_of_a_command_is_whole_beyond_ascii() -> None:
    read = commands("git commit -m '✨ ünïcode' && é 中 >文 # 😀")
    assert (read.texts, read.writes, read.opaque) == (("git commit -m '✨ ünïcode'", "'é' '中'"), ("文",), False)
    assert commands("echo $é").opaque
    assert commands("é=1 git").opaque
    assert commands("cat <<é\nxx\nrm\né\n").opaque


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ('"git status"', "'git status'"),
        ("git\u0456 status", "'git\u0456' status"),
        ("gi'\n't status", "'gi\nt' status"),
        ("git '$X' \"$X\" $X", "git '$X' \"$X\" $X"),
        ("'[' a", "[ a"),
    ],
)
def test_a_text_means_one_thing(script: str, text: str) -> None:
    assert commands(script).texts == (text,)


def test_shells_within_shells_have_an_end() -> None:
    script = "git x"
    for _ in range(5):
        script = "bash -c " + _quoted(script)
    assert commands(script).texts[-1] == "git x"
    assert not commands(script).opaque
    for _ in range(5):
        script = "bash -c " + _quoted(script)
    assert commands(script).opaque


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_redirections_name_what_they_write() -> None:
    read = commands("a >x 2>>'y z' <w; b &>v 2>&1; c >&u >|t 3>&-; d <<E >s\nE\n")
    assert read.writes == ("x", "y z", "v", "u", "t", "s")
    assert not read.opaque


def test_pipelines_and_doubts_about_arguments() -> None:
    read = commands('cd x && curl -s "$U" | sudo tee y >z')
    assert read.pipelines == ('curl -s "$U" | sudo tee y',)
    assert read.vague
    assert not commands("git 'status' 2>&1").vague
    assert commands("git {push,x}").vague
    assert commands("git pu*").vague


# ---------------------------------------------------------------- properties

NAMES = ["git", "rm", "wget", "make"]
SIMPLE = st.builds(
    lambda name, arguments: " ".join([name, *arguments]),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(["-f", "x", "'a b'", '"c;d"', "e\\ f", "$'g'"]), max_size=2),
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    glue = st.sampled_from([" | ", " && ", " || ", "; ", "\n", " & ", "|&", "|\n"])
    shapes = st.sampled_from(
        [
            "({0})",
            "{{ {0}; }}",
            "echo $({0})",
            'echo "x $({0})"',
            "cat <({0})",
            "if {0}; then true; fi",
            "if true; then {0}\nelse true; fi",
            "for i in x; do {0}; done",
            "case x in y) {0};; esac",
            "f() {{ {0}; }}",
            "! {{ {0}; }}",
            "echo ${{x:-$({0})}}",
            "a=$({0})",
            "( {0} ) >out 2>&1",
            "cat <<E\nx $({0}) y\nE\n",
        ]
    )
    return st.builds(lambda a, g, b: a + g + b, inner, glue, inner) | st.builds(
        lambda shape, a: shape.format(a), shapes, inner
    )


SCRIPTS = st.recursive(SIMPLE, _compound, max_leaves=8)


@given(SCRIPTS)
def test_no_command_of_a_script_is_missed(script: str) -> None:
    read = commands(script)
    count = sum(script.count(name) for name in NAMES)
    assert read.opaque or sum(text.split(" ")[0] in NAMES for text in read.texts) == count


PIECES = st.sampled_from([*"ab $`'\"\\\n;&|(){}<>#=[]!*?~-", "$(", "<<E\n", "\nE\n", "if ", "case ", "((", "\0", "é"])


@settings(max_examples=300)
@given(st.text(max_size=40) | st.lists(PIECES, max_size=25).map("".join))
def test_no_text_breaks_it(script: str) -> None:
    assert isinstance(commands(script), Commands)
