"""What a simple command runs besides itself: programs that run other programs, and builtins that change what runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .shell_words import Word, names

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?\+?=")
_DECISIVE = re.compile(
    r"PATH|IFS|ENV|HOME|SHELLOPTS|SHELL|PS[0-4]|CDPATH|GLOBIGNORE|EXECIGNORE|FIGNORE|EDITOR|VISUAL|BROWSER|PAGER|CC|CXX|LD"
    r"|BASH.*|LD_.*|DYLD_.*|GIT_.*|SSH_.*|XDG_.*|LESS.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|NPM_.*|npm_.*|JAVA_.*|_JAVA.*|JDK_.*"
    r"|MAKE.*|GNUMAKEFLAGS|RUST.*|CARGO_.*|GO[A-Z0-9]*|PIP_.*|UV_.*|DOCKER_.*|KUBE.*|PROMPT_COMMAND|LOCALDOMAIN|HOSTALIASES"
    r"|TERMINFO.*|.*PATH|.*_COMMAND|.*_PAGER|.*_EDITOR|.*_WRAPPER|.*FLAGS|.*OPTS?|.*OPTIONS|.*PRELOAD.*|.*_CONFIG.*|.*PROXY|.*_proxy"
)
"""Names of variables that decide what a program is, or what it loads and runs."""

KEYWORDS = names("if then elif else fi case esac for select while until do done in function { } [[ ]] ! coproc")
OPAQUE = names("eval source . alias unalias shopt enable hash bind complete compgen compopt history fc let")
"""Builtins after which nothing is sure, or that run text."""
RUNNERS = names(
    "chroot flock watch strace ltrace script su runuser parallel unshare nsenter setpriv systemd-run start-stop- "
    "daemon ssh setarch linux32 linux64 prlimit choom chrt taskset cpulimit daemonize dbus-run-session xvfb-run "
    "fakeroot proot firejail bwrap gosu su-exec tini dumb-init gdb valgrind perf rlwrap expect entr at batch "
    "pkexec sg unbuffer chronic numactl fish csh tcsh zsh ksh mksh yash"
)
"""Programs that run others in ways that are not read here."""
SHELLS = names("sh bash dash ash rbash")
_DECLARE = names("export declare typeset local readonly")
_NOT_IN_SH = re.compile(
    r"&>|>&\s*[^\s\d-]|\|&|\$'|\$\"|\(\(|\[\[|<<<|[<>]\(|\bfunction\b|\bcoproc\b|\bselect\b|\btime\b"
)
"""What bash and a plain sh take for different things."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program that runs another is called; an option that is not named here makes it opaque."""

    flags: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    operands: int = 0
    """Words between the options and the command."""
    assigns: bool = False
    """NAME=value may stand in front of the command."""
    open_ended: bool = False
    """It adds arguments of its own."""


WRAPPERS = {
    "sudo": Wrapper("EHnPSkbA", "ugphCrtTUDR", names("non-interactive preserve-env set-home"), assigns=True),
    "doas": Wrapper("n", "uC"),
    "env": Wrapper("i0v", "uC", names("ignore-environment null debug"), names("unset chdir"), assigns=True),
    "xargs": Wrapper(
        "0rtpxo",
        "adEILnPs",
        names("null no-run-if-empty verbose interactive exit open-tty show-limits"),
        names("arg-file delimiter max-lines max-args max-procs max-chars process-slot-var replace"),
        open_ended=True,
    ),
    "nice": Wrapper("0123456789", "n", long_valued=names("adjustment")),
    "ionice": Wrapper("t", "cn", names("ignore"), names("class classdata")),
    "timeout": Wrapper("v", "ks", names("foreground preserve-status verbose"), names("kill-after signal"), operands=1),
    "stdbuf": Wrapper("", "ioe", long_valued=names("input output error")),
    "nohup": Wrapper(),
    "setsid": Wrapper("cfw", long=names("ctty fork wait")),
    "command": Wrapper("p"),
    "builtin": Wrapper(),
    "exec": Wrapper("cl"),
    "time": Wrapper("p", assigns=True),
    "coproc": Wrapper(),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
}


def decisive(name: str) -> bool:
    """Whether setting this variable may change what a command is."""
    return _DECISIVE.fullmatch(name) is not None


@dataclass(slots=True)
class Ran:
    """What one simple command runs besides itself."""

    inner: list[Sequence[Word]] = field(default_factory=list[Sequence[Word]])
    scripts: list[str] = field(default_factory=list[str])
    opaque: bool = False


def ran(words: Sequence[Word]) -> Ran:
    """`words` are those of one simple command, without the assignments in front of it."""
    found = Ran()
    first = words[0]
    if not first.literal or not first.text or (first.bare and first.text in KEYWORDS):
        found.opaque = True
        if first.text != "coproc":
            return found
    if first.bare and ASSIGNMENT.match(first.text):
        found.opaque = True
    name = first.text.rpartition("/")[2]
    found.opaque |= name in OPAQUE or name in RUNNERS
    special = _SPECIAL.get(name)
    if special is not None:
        special(words, found)
    elif name in SHELLS:
        _shell(name, words, found)
    elif name in WRAPPERS:
        _wrapped(name, words, found)
    return found


# ---------------------------------------------------------------- programs that run programs


def _wrapped(name: str, words: Sequence[Word], found: Ran) -> None:
    wrapper = WRAPPERS[name]
    if name == "command" and len(words) > 1 and words[1].text in {"-v", "-V"}:
        return
    at = _after_options(wrapper, words)
    if at is None:
        found.opaque = True
        return
    while wrapper.assigns and at < len(words) and (assigned := ASSIGNMENT.match(words[at].text)):
        found.opaque |= decisive(assigned[1]) or not words[at].literal
        at += 1
    at += wrapper.operands
    found.opaque |= any(one.split or not one.literal for one in words[1:at])
    rest = list(words[at:])
    if not rest:
        return
    if wrapper.open_ended:
        found.opaque |= _replaces(words[1:at], rest)
        rest.append(Word("{}", literal=False, split=True))
    found.inner.append(rest)


def _after_options(wrapper: Wrapper, words: Sequence[Word]) -> int | None:
    """Where the options end; none when one of them is not known."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        option = words[at]
        at += 1
        if not option.literal:
            return None
        if option.text == "--":
            break
        takes = _takes_next(wrapper, option.text)
        if takes is None:
            return None
        at += takes
    return at if all(one.literal for one in words[1:at]) else None


def _takes_next(wrapper: Wrapper, option: str) -> int | None:
    """How many of the following words belong to the option; none when the option is not known."""
    if option.startswith("--"):
        name, equals, _ = option[2:].partition("=")
        if name in wrapper.long:
            return 0
        return None if name not in wrapper.long_valued else 0 if equals else 1
    if option == "-":
        return 0 if "i" in wrapper.flags else None
    for at, letter in enumerate(option[1:], 1):
        if letter in wrapper.valued:
            return 0 if option[at + 1 :] else 1
        if letter not in wrapper.flags:
            return None
    return 0


def _replaces(options: Sequence[Word], command: Sequence[Word]) -> bool:
    """Whether xargs may put what it reads into the place of a program, or into a script."""
    if not any(one.text.startswith(("-I", "--replace")) for one in options):
        return False
    name = command[0].text.rpartition("/")[2]
    strict = name in SHELLS or name in WRAPPERS or name in RUNNERS or name == "find"
    return strict or any(one.text.removeprefix("-I") in command[0].text for one in options if one.text != "-I")


def _find(words: Sequence[Word], found: Ran) -> None:
    found.opaque |= any(not one.literal for one in words)
    at = 1
    while at < len(words):
        at += 1
        if words[at - 1].text not in {"-exec", "-execdir", "-ok", "-okdir"}:
            continue
        end = at
        while end < len(words) and words[end].text != ";" and words[end - 1 : end + 1] != [Word("{}"), Word("+")]:
            end += 1
        command = [Word("{}", literal=False) if one.text == "{}" else one for one in words[at:end]]
        # A file's name inside a longer text may become a part of a script.
        found.opaque |= not command or any("{}" in one.text and one.literal for one in command)
        if command:
            found.inner.append(command)
        at = end


def _shell(name: str, words: Sequence[Word], found: Ran) -> None:
    """`bash -c script` runs the script, `bash file` is a program like others, `bash` alone reads nobody knows what."""
    at, script = 1, False
    while at < len(words) and words[at].text[:1] in {"-", "+"} and words[at].text not in {"-", "--"}:
        option = words[at]
        at += 1
        script = script or (option.text.startswith("-") and not option.text.startswith("--") and "c" in option.text)
        if option.text in {"-o", "+o"}:
            found.opaque |= at >= len(words) or words[at].text not in {"pipefail", "errexit", "nounset", "noglob"}
            at += 1
        else:
            known = option.text in {"--norc", "--noprofile"} or re.fullmatch(r"[-+][ceux]+", option.text)
            found.opaque |= not option.literal or not known
    if at < len(words) and words[at].text in {"-", "--"}:
        at += 1
    if at >= len(words) or not words[at].literal:
        found.opaque = True
    elif script:
        found.scripts.append(words[at].text)
        found.opaque |= name != "bash" and _NOT_IN_SH.search(words[at].text) is not None


# ---------------------------------------------------------------- builtins


def _eval(words: Sequence[Word], found: Ran) -> None:
    found.opaque = True
    if all(one.literal for one in words):
        found.scripts.append(" ".join(one.text for one in words[1:]))


def _trap(words: Sequence[Word], found: Ran) -> None:
    rest = [one for one in words[1:] if one.text != "--"]
    if not all(one.literal for one in rest):
        found.opaque = True
    elif rest and not re.fullmatch(r"-|-[lp]+", rest[0].text):
        found.scripts.append(rest[0].text)


def _names(words: Sequence[Word], found: Ran) -> None:
    """A builtin that sets the variables it is given. A subscript would be evaluated, and could run commands."""
    for one in words[1:]:
        if one.literal and one.text.startswith("-"):
            found.opaque |= any(letter in one.text for letter in "Cn" if words[0].text != "read")
        else:
            name = ASSIGNMENT.match(one.text)
            plain = name[1] if name and not name[2] else one.text
            found.opaque |= IDENTIFIER.fullmatch(plain) is None or decisive(plain)


def _declare(words: Sequence[Word], found: Ran) -> None:
    for one in words[1:]:
        if one.literal and one.text.startswith(("-", "+")):
            found.opaque |= re.fullmatch(r"[-+][xgrapA]+", one.text) is None
        else:
            name = ASSIGNMENT.match(one.text)
            plain = name[1] if name and not name[2] else one.text
            found.opaque |= IDENTIFIER.fullmatch(plain) is None or decisive(plain)


def _read(words: Sequence[Word], found: Ran) -> None:
    """Values of options are read as names too; that errs on the safe side for all but the usual ones."""
    usual = [one for one in words[1:] if not (one.literal and re.fullmatch(r"[0-9.]+|", one.text))]
    _names([words[0], *usual], found)


def _printf(words: Sequence[Word], found: Ran) -> None:
    if len(words) > 1 and (words[1].split or not words[1].literal or words[1].text.startswith("-v")):
        found.opaque = True


def _test(words: Sequence[Word], found: Ran) -> None:
    rest = words[1:]
    found.opaque |= any(one.split or one.text in {"-v", "-R"} for one in rest)
    found.opaque |= bool(rest) and not rest[0].literal and len(rest) > 1 and not rest[1].literal


def _wait(words: Sequence[Word], found: Ran) -> None:
    found.opaque |= any(re.fullmatch(r'[0-9]+|-n|"?\$!"?', one.text) is None for one in words[1:])


def _set_options(words: Sequence[Word], found: Ran) -> None:
    text = " ".join(one.text for one in words[1:])
    safe = re.fullmatch(r"(?:[-+][eux]+ ?|[-+][eux]*o (?:pipefail|errexit|nounset|noglob) ?)*(?:-- ?.*)?", text)
    found.opaque |= safe is None or any(not one.literal for one in words[1:2])


def _jobs(words: Sequence[Word], found: Ran) -> None:
    found.opaque |= any(one.text.startswith("-x") or not one.literal for one in words[1:])


_SPECIAL: dict[str, Callable[[Sequence[Word], Ran], None]] = {
    "find": _find,
    "eval": _eval,
    "trap": _trap,
    "set": _set_options,
    "jobs": _jobs,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "read": _read,
    "wait": _wait,
    **dict.fromkeys(("mapfile", "readarray", "unset", "getopts"), _names),
    **dict.fromkeys(_DECLARE, _declare),
}
