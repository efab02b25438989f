"""What a shell command line runs, told from its text."""

from __future__ import annotations

import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.tools.shell.programs import suggested_pattern
from agent_runtime.tools.shell.script import MAX_SCRIPT_BYTES, ScriptCommands, parse_commands
from agent_runtime.tools.shell.words import BUILTINS, KEYWORDS

PLAIN = [
    ("git status", ["git status"]),
    ("  git   status\t-s  # why\n", ["git status -s"]),
    ("a && b || c | d;e\nf;\n\n# g\n", ["a", "b", "c", "d", "e", "f"]),
    ("a &&\n b |\n c \\\n -d", ["a", "b", "c -d"]),
    ("g\"i\"t 'st'atus \\git", ["git status git"]),
    ("git 'a b' \"c;d\" '' {} HEAD~1 '$x' \"a$ \\$b\"", ["git 'a b' 'c;d' '' {} 'HEAD~1' '$x' 'a$ $b'"]),
    ("git 'a\nb'", ["git 'a\nb'"]),
    (">x rm >>y z 2>&1 &>'u v' <w", ["rm z"]),
    ("cat <<'E' > x; b\n$(a) `b`\nE\nc <<-\"E\"\n\t$a\n\tE\nd", ["cat", "b", "c", "d"]),
    ("[ -f x ] && test -d y || exit 1; cd z; printf '%s' a; : b", None),
    # variables and programs in front that change nothing
    ("LANG=C LC_ALL=de_DE.UTF-8 TZ='Europe/Berlin' CI=1 git x", ["git x"]),
    ("env git x; env LANG=C nice -n 5 timeout -k 1 5.5s time -p git y", ["git x", "git y"]),
    ("env; nice", ["env", "nice"]),
    # programs that run others
    ("sudo -n nohup setsid rm x", ["sudo -n nohup setsid rm x", "nohup setsid rm x", "setsid rm x", "rm x"]),
    ("ls | xargs -0 -n1 -I {} git x {}.y", ["ls", "xargs -0 -n1 -I {} git x '{}.y'", "git x '{}.y' {}"]),
    ("find . -name 'x*' -exec git y {} \\; -execdir rm {} +", None),
    ("bash -c 'git x; sh -c \"rm y\"'; bash run.sh -x", None),
    ("/bin/rm x", ["/bin/rm x"]),
    ("git commit -m '✨ ünïcode' 文 # 😀", ["git commit -m '✨ ünïcode' '文'"]),
]


@pytest.mark.parametrize(("script", "texts"), PLAIN)
def test_of_plain_scripts_every_command_is_named(script: str, texts: list[str] | None) -> None:
    read = parse_commands(script)
    assert read.opaque == ""
    assert texts is None or list(read.texts) == texts


def test_commands_among_arguments_are_named_too() -> None:
    assert list(parse_commands("find . -name 'x*' -exec git y {} \\; -ok rm -f {} +").texts)[1:] == [
        "git y {}",
        "rm -f {}",
    ]
    nested = parse_commands("bash -c 'git x; sh -c \"rm y\"'; bash run.sh -x")
    assert list(nested.texts) == ["bash -c 'git x; sh -c \"rm y\"'", "git x", "sh -c 'rm y'", "rm y", "bash run.sh -x"]


def test_what_is_filled_in_leaves_a_beginning() -> None:
    assert parse_commands("git add x/*.py y; rm [a-c] ?; ls | xargs -r wc").starts == {
        "git add x/*.py y": "git add x/",
        "rm [a-c] ?": "rm ",
        "wc {}": "wc ",
    }
    assert parse_commands("find . -exec rm -f {} \\;").starts == {"rm -f {}": "rm -f "}
    assert parse_commands("git '*' \"?\" \\[").starts == {}


OPAQUE = [
    *(
        "$X foo",
        "a $x",
        'a "$x"',
        "a `b`",
        'a "`b`"',
        "a $(b)",
        "a <(b)",
        "a ${x}",
        "a $((1))",
        "a $'b'",
        'a $"b"',
        "$'a'",
    ),
    *("a &", "a & b", "a |& b", "(a)", "{ a; }", "! a", "a; ; b", "a && ; b", "&& a", "a ||", "a |", "a ;; b", "a )"),
    *(
        "if a; then b; fi",
        "while a; do b; done",
        "for x in y; do a; done",
        "case x in y) a;; esac",
        "[[ a == b ]]",
        "((1))",
    ),
    *(
        "f() { a; }",
        "function f { a; }",
        "coproc a",
        "select x in y; do a; done",
        "time",
        "time ! a",
        "until a; do b; done",
    ),
    *(
        "eval a",
        "source x",
        ". x",
        "exec a",
        "command a",
        "builtin a",
        "alias a=b",
        "export A=1",
        "set -e",
        "trap a EXIT",
    ),
    *("read x", "declare x", "unset x", "shopt -s x", "let x", "hash -p x a", "enable x", "printf -v x y", "test -v x"),
    *("[ -v x ]", "[ -R x ]", "test *", "printf *", "local x", "wait", "getopts a x", "mapfile x", "return", "help"),
    *(
        "A=1",
        "A=1 b",
        "LANG=C",
        "RANDOM=1 a",
        "LANG=de_DE@euro a",
        "LC_ALL=ja_JP.SJIS a",
        "TZ=/x a",
        "TZ=:x a",
        "a=b c",
    ),
    *(
        "'LANG=C' a",
        "LANG\\=C a",
        "PATH=x a",
        "http_proxy=x a",
        "CI=$x a",
        "LANG+=C a",
        "A[1]=2 b",
        "env A=1 b",
        "A=~ b",
    ),
    *(
        "env -i a",
        "env -S 'a b'",
        "env -u A b",
        "timeout a",
        "timeout -x 5 a",
        "nice --x a",
        "nice -n x a",
        "timeout $X a",
    ),
    *("./env a", "/usr/bin/env a", "'time' a", "xargs -a x b", "xargs env", "xargs bash", "xargs -I% a %", "xargs {}"),
    *("find * -name x", "find . -exec {} \\;", "find . -exec sh -c 'a {}' \\;", "find . -exec a", "find . -exec \\;"),
    *(
        "bash",
        "bash -s",
        "bash -x a",
        "bash -i",
        "sh -c",
        'bash -c "$X"',
        "bash -c 'a &'",
        "sh -c 'a &> b'",
        "zsh -c a",
    ),
    *(
        "r? x",
        "r[m] x",
        "~/x y",
        "{rm,-rf,/}",
        "a {b,c}",
        "a {1..3}",
        "a ~",
        "a ~b",
        "a b=~",
        "a b:~/c",
        "a{,}",
        "r{m,n} x",
    ),
    *(
        "> x",
        "> x; a",
        "a > $X",
        "a > x*",
        "a > ~/x",
        "a >",
        "a >& x",
        "a >&-",
        "a <> x",
        "a <<< b",
        "a {fd}>x",
        "a 12>x",
    ),
    *(
        "a <<E\nE\n",
        "a <<'E'",
        "a <<'E'\nx",
        "a <<'E' <<'F'\nE\nF\n",
        "a <<\\E\nE\n",
        "a <<E'F'\nEF\n",
        "a <<'E'x\nE\n",
    ),
    *(
        "'a",
        '"a',
        "a \\",
        "a\\\nb",
        "a \\\n\\\nb\\\n",
        'a "$\\\n(b)"',
        "\\ git",
        "'a b' c",
        "a%b c",
        "-x",
        "é x",
        "'' x",
    ),
    *(
        "a\rb",
        "a\0b",
        "a\u00a0b",
        "a\u2003c",
        "a\ufeffb",
        "a\vb",
        "a \u200b",
        "a '\x1b'",
        "a\ud800b",
        "%1",
        "!!",
        "a|;b",
    ),
    *("sudo " * 9 + "a", "a " * 5000, "x" * (MAX_SCRIPT_BYTES + 1), "é" * (MAX_SCRIPT_BYTES // 2 + 1)),
]


@pytest.mark.parametrize("script", OPAQUE, ids=lambda script: script[:40].encode("ascii", "backslashreplace").decode())
def test_everything_else_is_opaque_and_says_why(script: str) -> None:
    assert parse_commands(script).opaque


def test_scripts_within_scripts_have_an_end() -> None:
    script, depths = "git x", list[bool]()
    for _ in range(8):
        script = "bash -c '" + script.replace("'", "'\\''") + "'"
        depths.append(bool(parse_commands(script).opaque))
    assert depths == sorted(depths)
    assert set(depths) == {True, False}


def test_every_name_that_bash_itself_knows_is_known() -> None:
    for kind, known in (("b", BUILTINS), ("k", KEYWORDS)):
        told = subprocess.run(["bash", "-c", f"compgen -{kind}"], capture_output=True, text=True, check=True)
        assert set(told.stdout.split()) <= known


# ---------------------------------------------------------------- for rules that deny

SEEN = [
    ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
    ("for i in 1 2; do a $i; done; while b; do c; done", ["a $i", "b", "c"]),
    ("for i do a; done; case x in y|z) b;; *) c;; esac", ["a", "b", "c"]),
    ("f() { a; }; function g { b; }; ! c; { d; }; (e; f) & g", ["a", "b", "c", "d", "e", "f", "g"]),
    ('echo $(a 1) `b 2` <(c) "$(d 3)" ${x:-$(e)} "x `f 4` y"', ["a 1", "b 2", "c", "d 3", "e", "f 4"]),
    ("echo $(a $(b (c) d)) e", ["b", "c"]),
    ("cat <<E\nx $(a 1) `b`\nE\nc", ["cat", "a 1", "b", "c"]),
    ("cat <<'E'; $x\nrm x\nE\nc", ["cat", "c"]),
    ("A=1 b=$(c) d; export E=1 # f", ["c", "d", "export E=1"]),
    ("sudo -u x env A=1 git y $z", ["git y $z"]),
    ("timeout $T git x; xargs -a f rm", ["git x", "rm"]),
    ("eval 'rm x'; trap \"rm y\" EXIT; zsh -c 'rm z'; sudo sh -ec 'rm u'", ["rm x", "rm y", "rm z", "rm u"]),
    ('"$DIR/rm" x; $BIN/git y', ["rm x", "git y"]),
    ("a > >(b)", ["a", "b"]),
    ("echo $((1<<2))\nrm x\n2\n", ["rm x"]),
]


@pytest.mark.parametrize(("script", "texts"), SEEN)
def test_what_can_be_seen_in_other_scripts_is_told(script: str, texts: list[str]) -> None:
    read = parse_commands(script)
    assert read.opaque
    assert [text for text in texts if text not in read.texts] == [], read.texts
    assert "rm x" in texts or "rm x" not in read.texts


def test_data_is_not_taken_for_commands() -> None:
    for script in ("git commit -m 'rm x; rm x' $y", "echo 'rm x' $(a)", "cp $(which a) rm x", "a # rm x\n$y"):
        assert not any(text.startswith("rm") for text in parse_commands(script).texts)


@pytest.mark.parametrize(
    ("script", "anything"),
    [
        *(
            (one, True)
            for one in ("$X y", "a; $(b) c", "`a`", "eval $X", 'bash -c "$X"', "curl x | bash", "r$(echo m) x")
        ),
        *((one, True) for one in ("sudo $X", "r? x", "{rm,x}", "a$;" * 10_000, "a $x;" * 20_000)),
        *((one, False) for one in ("git $X", '"$D/run" x', "~/bin/x &", "for f in *; do rm $f; done", "bash $D/x.sh")),
        *((one, False) for one in ("(a)", "f() { g; }", "[ $x = y ]", "source x", ": ${X:=y}")),
    ],
)
def test_where_no_program_is_named_anything_may_run(script: str, anything: bool) -> None:
    assert parse_commands(script).anything == anything


def test_more_of_a_plain_script_is_told_to_rules_that_deny() -> None:
    read = parse_commands("timeout 5 git x; awk y")
    assert (read.texts, "timeout 5 git x" in read.nested, "awk y" in read.nested) == (("git x", "awk y"), True, False)


def test_redirections_name_what_they_write() -> None:
    read = parse_commands("a >x 2>>'y z' <w; b &>v 2>&1; c >&u >|t 3>&-; d <<E >s\nE\ne >$X")
    assert read.writes == ("x", "y z", "v", "u", "t", "s", "$X")
    assert parse_commands("a >x 2>'y z' &>v").writes == ("x", "y z", "v")


def test_pipelines_are_told() -> None:
    assert parse_commands('cd x && curl -s "$U" | sudo tee y >z').pipelines == ('curl -s "$U" | sudo tee y',)
    assert "curl x | sh" in parse_commands("echo $(curl x | sh) y").pipelines
    assert parse_commands("f(){ f|f& };f").pipelines == ("f | f",)


# ---------------------------------------------------------------- suggestions


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("ls -l", "ls *"),
        ("git status", "git status"),
        ("sed -n 1p x", "sed -n 1p x"),
        ("make", "make"),
        ("cd src", "cd src"),
        ("uniq a b", "uniq a b"),
        ("file -C -m x", "file -C -m x"),
        ("awk '{print $1*2}' x", "awk '{print $1?2}' x"),
        ("/bin/ls x", "/bin/ls x"),
    ],
)
def test_only_programs_that_run_no_other_are_suggested_as_a_kind(text: str, pattern: str) -> None:
    assert suggested_pattern(text) == pattern


def test_what_a_script_writes_into_files_is_not_suggested_as_a_kind() -> None:
    assert suggested_pattern("echo x", writes=True) == "echo x"


# ---------------------------------------------------------------- any text

PIECES = st.sampled_from([*"ab $`'\"\\\n;&|(){}<>#=[]!*?~-", "$(", "<<E\n", "\nE\n", "if ", "case ", "((", "\0", "é"])


@given(st.text(max_size=40) | st.lists(PIECES, max_size=25).map("".join))
def test_no_text_breaks_it(script: str) -> None:
    assert isinstance(parse_commands(script), ScriptCommands)


HARD = [
    *(
        "env ",
        "xargs ",
        "a|",
        "timeout 1 ",
        "$(",
        "'b' ",
        "a`",
        '"$((',
        "eval '",
        "x<<E\n",
        "(",
        "sudo a;",
        "\\a",
        "{",
        "$",
    ),
    *(
        "<<'E' ",
        "a<<'E'\n",
        '"a\\\n',
        "#",
        "#\n",
        " \\\n",
        "~=:",
        "a=[",
        "find -exec a \\; ",
        "'",
        '"',
        "$'",
        "a[",
        "$()",
    ),
]


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("piece", HARD)
def test_no_text_takes_long(piece: str) -> None:
    script = piece * (MAX_SCRIPT_BYTES // len(piece))
    before = time.thread_time()
    parse_commands(script)
    assert time.thread_time() - before < 3, "a fifth of a second is spent, under a tracer a whole one"


@pytest.mark.slow  # measures time
def test_names_that_are_all_different_do_not_take_long() -> None:
    for script in ("".join(f"x<<E{at}\n" for at in range(14_000)), "".join(f"a{at}|" for at in range(18_000))):
        before = time.thread_time()
        parse_commands(script)
        assert time.thread_time() - before < 3
