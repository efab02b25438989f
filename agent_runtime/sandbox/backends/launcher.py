"""Confine a command without namespaces: `python -I -S launcher.py LIFELINE PLAN ARGV...`

The launcher stays the command's parent, as a process that the command can neither signal nor inspect, and adopts all
processes that the command leaves. When the command ends, or the lifeline does because the server closes it or has died,
it kills all its descendants and only then exits, with the command's exit code.
"""

from __future__ import annotations

# Only modules that import quickly: this runs before every command.
import _socket
import ctypes
import errno
import fcntl
import marshal
import os
import resource
import select
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn

LIBC = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
CAPSET = {"x86_64": 126, "aarch64": 91, "arm64": 91}
CREATE_RULESET = 444
ADD_RULE = 445
RESTRICT_SELF = 446
SECCOMP = {"x86_64": 317, "aarch64": 277, "arm64": 277}
SET_FILTER = 1
NEW_LISTENER = 1 << 3
CONTINUE_CALL = 1
QUESTION = 0xC0502100
ANSWER = 0xC0182101
"""SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND."""
SCM_RIGHTS = 1
ANSWER_PAUSE = 0.0005
"""Seconds of pause after each answer: the launcher has the server's priority, and a command may ask endlessly."""
MAX_TRIES = 8
"""Attempts to trace the ancestors of a process while some of them end."""

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
MAKE_CHAR = 1 << 6
MAKE_BLOCK = 1 << 11
TRUNCATE = 1 << 14
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
READ = EXECUTE | READ_FILE | READ_DIR
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file rights by version of Landlock; later versions have 16."""
NET_TCP = 3
SCOPES = 3
NO_HOME = "/tmp"  # noqa: S108 - not accessible here
SIGKILL = 9
SIGPIPE = 13
SIGSTOP = 19
SIGXFSZ = 25
REAP_SECONDS = 0.2
"""Seconds between checks for ended orphans."""
FAILED = 126
KILLED = 128 + SIGKILL


def main() -> NoReturn:
    lifeline = int(sys.argv[1])
    file = int(sys.argv[2])
    argv = sys.argv[3:]
    with open(file, "rb") as plan_file:
        plan_file.seek(0)
        plan: dict[str, Any] = marshal.load(plan_file)  # noqa: S302 - written by the server
    _check_result(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "it cannot adopt processes")
    tmp = None if plan["tmp"] is None else f"{plan['tmp']}/.tmp-{os.urandom(8).hex()}"
    pair = _socket.socketpair() if plan["signals"] else None
    command = os.fork()
    if command == 0:
        _run_confined(plan, argv, tmp, pair and pair[1])
    listener = _receive_listener(*pair) if pair else None
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # otherwise the launcher keeps the command's pipes open
        os.dup2(null, stream)
    code = _wait_for_end(command, lifeline, listener)
    _kill_descendants()
    if tmp:
        _remove_folder(tmp, plan)
    os._exit(code)


class IgnoreOSErrors:
    """Suppresses OSError, for objects that may be gone already."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        return isinstance(error, OSError)


ignore_os_errors = IgnoreOSErrors()


def _wait_for_end(command: int, lifeline: int, listener: int | None) -> int:
    """Wait for the end of the command or of the lifeline. Returns the exit code."""
    watched = [lifeline, os.pidfd_open(command), *([] if listener is None else [listener])]
    while True:
        ready, _, _ = select.select(watched, (), (), REAP_SECONDS)
        for pid, status in _reap():
            if pid == command:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        if lifeline in ready:
            return KILLED
        if listener in ready:
            _answer_signal(listener)


def _reap() -> list[tuple[int, int]]:
    ended: list[tuple[int, int]] = []
    with ignore_os_errors:
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(one)
    return ended


def _kill_descendants() -> None:
    """Kill all descendants. They are stopped first, until no new one appears, because stopped processes start none."""
    while _has_children():
        stopped: set[int] = set()
        while new := set(_descendants()) - stopped:
            _signal(new, SIGSTOP)
            stopped |= new
        _signal(stopped, SIGKILL)
        select.select((), (), (), 0.001)


def _has_children() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with ignore_os_errors:
            os.kill(pid, number)


def _descendants() -> list[int]:
    """Return the ids of all living descendants."""
    parents: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with ignore_os_errors:
            state, parent, _ = _stat(int(name))
            if state not in (b"Z", b"X"):
                parents.setdefault(parent, []).append(int(name))
    found = list[int]()
    waiting = [os.getpid()]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _stat(pid: int) -> tuple[bytes, int, int]:
    """Return state, parent and process group."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        state, parent, group = file.read().rpartition(b")")[2].split()[:3]
    return state, int(parent), int(group)


# ---------------------------------------------------------------- signals, for versions of Landlock without scopes


def _receive_listener(ours: _socket.socket, theirs: _socket.socket) -> int | None:
    """Return the listener of the command's filter, which the command's process sends; None if that process failed."""
    theirs.close()
    _, control, _, _ = ours.recvmsg(1, _socket.CMSG_SPACE(4))
    ours.close()
    return struct.unpack("i", control[0][2])[0] if control else None


def _answer_signal(listener: int) -> None:
    """Allow a signal if its receiver belongs to the command. The sender is blocked meanwhile."""
    question = bytearray(80)
    with ignore_os_errors:  # the sender may have ended
        fcntl.ioctl(listener, QUESTION, question)
        number, receiver = *struct.unpack_from("=Q", question), *struct.unpack_from("=i", question, 32)
        fault = _signal_errno(receiver)
        fcntl.ioctl(listener, ANSWER, struct.pack("=QqiI", number, 0, -fault, 0 if fault else CONTINUE_CALL))
    select.select((), (), (), ANSWER_PAUSE)


def _signal_errno(receiver: int) -> int:
    """Return 0, or the error number for a signal to this process or, if negative, to this group."""
    if receiver == 0:  # the sender's own group belongs to the command
        return 0
    if receiver == -1:  # all processes
        return errno.EPERM
    try:
        return 0 if _is_descendant(abs(receiver)) else errno.EPERM
    except FileNotFoundError:
        if receiver > 0:
            return errno.ESRCH
    # A group whose leader has ended. Groups belong to one session, and sessions to one command: any member tells.
    for pid in _descendants():
        with ignore_os_errors:
            if _stat(pid)[2] == -receiver:
                return 0
    return errno.EPERM


def _is_descendant(pid: int) -> bool:
    """Return whether a process or thread is a descendant. Raises FileNotFoundError if it does not exist."""
    for _ in range(MAX_TRIES):
        above = _stat(pid)[1]
        with ignore_os_errors:  # a parent has ended, and its children have a new one
            while above > 1 and above != os.getpid():
                above = _stat(above)[1]
            return above == os.getpid()
    return False


# ---------------------------------------------------------------- inside the command's process


def _run_confined(
    plan: dict[str, Any], argv: list[str], tmp: str | None, launcher_socket: _socket.socket | None
) -> NoReturn:
    """Drop everything that the plan does not allow, then run the command."""
    try:
        os.setsid()
        for ignored in (SIGPIPE, SIGXFSZ):  # Python ignores them
            LIBC.signal(ignored, None)
        LIBC.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
        _confine(plan, launcher_socket)
        if tmp:
            os.mkdir(tmp, 0o700)
            os.environ.update({"TMPDIR": tmp, "HOME": tmp} if os.environ["HOME"] == NO_HOME else {"TMPDIR": tmp})
        _exec_program(argv)
        os.write(2, f"{argv[0]}: there is no such program\n".encode())
        os._exit(127)
    except BaseException as error:  # noqa: BLE001 - this process must end after any failure
        os.write(2, f"{argv[0]}: {error}\n".encode())
        os._exit(FAILED)


def _exec_program(argv: list[str]) -> None:
    """Execute a program on the PATH; return if there is none. Python's own search would import modules, which fails
    now."""
    for folder in [""] if "/" in argv[0] else os.environ["PATH"].split(":"):
        try:
            os.execv(os.path.join(folder, argv[0]), argv)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:  # an unreadable folder, or a file that is not executable
            if "/" in argv[0]:
                raise


def _confine(plan: dict[str, Any], launcher_socket: _socket.socket | None) -> None:
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("800")
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    os.umask(0o022)
    ruleset = _ruleset(plan["landlock"], plan["read"], plan["write"], plan["devices"])
    code: bytes = plan["filter"]
    _set_limits(plan)
    _drop_privileges(plan["uid"], plan["groups"])
    os.chdir(plan["workdir"])
    _check_result(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "privileges cannot be renounced")
    if ruleset is not None:
        _check_result(LIBC.syscall(RESTRICT_SELF, ruleset, 0), "the ruleset cannot be entered")
    kept = 2 if launcher_socket is None else os.dup2(launcher_socket.fileno(), 3, inheritable=False)
    os.closerange(kept + 1, 1 << 30)
    lines = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(lines)))
    number = SECCOMP[os.uname().machine]
    flags = 0 if launcher_socket is None else NEW_LISTENER
    listener = LIBC.syscall(number, SET_FILTER, flags, ctypes.byref(program))
    _check_result(listener, "the filter cannot be set")
    if launcher_socket is not None:
        _send_listener(listener)


def _send_listener(listener: int) -> None:
    """Send the filter's listener to the launcher, which answers for it. Both descriptors close at exec."""
    above = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, 3)
    above.sendmsg([b"."], [(_socket.SOL_SOCKET, SCM_RIGHTS, struct.pack("i", listener))])


def _set_limits(plan: dict[str, Any]) -> None:
    for name, value in plan["limits"].items():
        more = _threads_of(os.getuid()) if name == "nproc" and plan["uid"] is None else 0
        limit = value + more
        _, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        if hard != resource.RLIM_INFINITY and os.geteuid():
            limit = min(limit, hard)
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (limit, limit))


def _threads_of(uid: int) -> int:
    """Return the number of threads that this user runs: the kernel counts them together with the command's."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with ignore_os_errors:
            if os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _drop_privileges(uid: int | None, groups: list[int]) -> None:
    if uid is not None:
        for capability in range(64):
            if LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                break
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    LIBC.prctl(PR_CAP_AMBIENT, 4, 0, 0, 0)  # clears them all
    header = struct.pack("II", 0x20080522, 0)
    nothing = bytes(24)
    _check_result(LIBC.syscall(CAPSET[os.uname().machine], header, nothing), "capabilities cannot be dropped")


def _ruleset(version: int, read: list[str], write: list[str], devices: list[str]) -> int | None:
    """Return the descriptor of a Landlock ruleset for these paths; None without Landlock."""
    if not version:
        return None
    known = (1 << RIGHTS.get(version, 16)) - 1
    handled = struct.pack("QQQ", known, NET_TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    handled = handled[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = LIBC.syscall(CREATE_RULESET, handled, len(handled), 0)
    _check_result(ruleset, "there is no ruleset")
    for paths, rights in (
        (read, READ),
        (write, known & ~(MAKE_CHAR | MAKE_BLOCK)),
        (devices, READ_FILE | WRITE_FILE),
    ):
        for path in paths:
            _add_rule(ruleset, path, rights & known)
    return ruleset


def _add_rule(ruleset: int, path: str, rights: int) -> None:
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    rights &= -1 if os.path.isdir(path) else ON_FILES
    rule = struct.pack("=Qi", rights, at)
    _check_result(LIBC.syscall(ADD_RULE, ruleset, 1, rule, 0), f"no rule can be made for {path}")
    os.close(at)


def _check_result(result: int, fault: str) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{fault} ({os.strerror(ctypes.get_errno())})")


# ---------------------------------------------------------------- the command's folder for temporary files


def _remove_folder(folder: str, plan: dict[str, Any]) -> None:
    """Remove the folder as the command's own user, because the command may have put anything there."""
    try:
        os.rmdir(folder)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass
    remover = os.fork()
    if remover == 0:
        try:
            _drop_privileges(plan["uid"], [])
            _exec_program(["rm", "-rf", "--", folder])
        finally:
            os._exit(FAILED)
    os.waitpid(remover, 0)


main()
