"""Ways in which a plugin goes wrong, by mistake and on purpose. Each is a plugin with a bad call and a good one."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

BRIEF = 0.4
"""Seconds that a bad call may take which never ends."""
LATE = rf"did not finish within its deadline of {BRIEF} s"
ENDED = "the skill's process ended"
TOO_MANY = "it started more than 64 processes and threads"
STRANGE = "the skill's process broke the protocol"
FINE = ""
"""The call itself has its result; what it leaves behind is the mischief."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to go wrong."""

    name: str
    bad: str
    """The body of the bad skill."""
    told: str
    """A pattern that the error has; empty: the call answers `done`."""
    timeout: float | None = None

    def plugin(self) -> str:
        """The plugin's code: `NAME_bad` and `NAME_good`."""
        body = textwrap.indent(textwrap.dedent(self.bad).strip(), "    ")
        limit = f", timeout={self.timeout}" if self.timeout else ""
        head = f'@skill(name="{self.name}_bad", description="Goes wrong."{limit})\ndef bad(n: int):\n'
        return f'{PREFACE}\n{head}{body}\n    return "done"\n{GOOD.replace("NAME", self.name)}'


PREFACE = """
import ctypes, json, os, resource, signal, subprocess, sys, threading, time
kept = []
"""
GOOD = """

@skill(name="NAME_good", description="Leans on all that a function may lean on.")
def good(n: int, *, workspace):
    import math, tempfile
    from decimal import Decimal
    print("good", n)
    print("good", n, file=sys.stderr)
    with open("storm.txt") as file:
        assert file.read() == "calm\\n"
    path = workspace / "NAME.json"
    path.write_text(json.dumps({"n": n}))
    assert json.loads(path.read_text()) == {"n": n}
    path.unlink()
    with tempfile.TemporaryFile() as file:
        file.write(bytes(1 << 20))
    heard = []
    thread = threading.Thread(target=lambda: heard.append(math.isqrt(n * n)))
    thread.start()
    thread.join()
    assert subprocess.run(["echo", str(n)], capture_output=True, text=True, check=True).stdout == f"{n}\\n"
    assert len(bytearray(100 << 20)) == 100 << 20
    def deep(left):
        return deep(left - 1) if left else 0
    deep(500)
    time.sleep(0.01)
    return int(Decimal(heard[0]) * n)
"""
"""Answers n * n."""

ENDINGS = (
    Way("exit", 'print("last words"); os._exit(3)', rf"{ENDED} \(exit code 3\): .*last words"),
    Way("sys_exit", "sys.exit(4)", r"it called exit \(4\)"),
    Way("segfault", "ctypes.string_at(0)", rf"{ENDED} \(signal 11\)"),
    Way("abort", "os.abort()", rf"{ENDED} \(signal 6\)"),
    Way("kill_itself", "os.kill(os.getpid(), signal.SIGKILL)", ENDED),
    Way("interrupt", "signal.raise_signal(signal.SIGINT)", "KeyboardInterrupt"),
    Way("exec", 'os.execv("/bin/sh", ["sh", "-c", "echo instead; exit 5"])', ENDED),
    Way("loop", "while True: pass", LATE, BRIEF),
    Way("deaf", "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); time.sleep(600)", LATE, BRIEF),
    Way("no_gil", "sum(range(10**12))", LATE, BRIEF),
    Way("stops_itself", "os.kill(os.getpid(), signal.SIGSTOP); time.sleep(600)", LATE, BRIEF),
    Way("recursion", "def again(): return again()\nagain()", "RecursionError"),
    Way(
        "deep_stack",
        "x = ()\nfor _ in range(10**6): x = (x,)\nhash(x)",  # nothing counts how deep a hash goes; repr takes its time
        f"{ENDED}|MemoryError|RecursionError|SystemError",
    ),
    Way("memory", "return len(bytearray(5 * 2**30))", "MemoryError"),
    Way("memory_by_steps", "while True: kept.append(bytearray(2**26))", "MemoryError"),
    Way(
        "threads",
        "for _ in range(10_000): threading.Thread(target=time.sleep, args=(600,)).start()",
        f"RuntimeError|{TOO_MANY}",
    ),
    Way(
        "small_threads",
        """
        threading.stack_size(1 << 16)
        while True: threading.Thread(target=time.sleep, args=(600,)).start()
        """,
        TOO_MANY,
        BRIEF + 5,
    ),
    Way("forks", "while True: os.fork() or time.sleep(600)", TOO_MANY, BRIEF + 5),
)
LINES = (
    Way("close_all", "os.closerange(0, 1 << 16)", ENDED),
    Way("close_outward", "os.closerange(3, 1 << 16)", ENDED),
    Way("mute", "os.dup2(os.open(os.devnull, os.O_WRONLY), 4)", LATE, BRIEF),
    Way("noise", 'while True: print("x" * 10_000)', LATE, BRIEF),
    Way(
        "garbage",
        """
        for number in range(64):
            try: os.write(number, b"\\xff\\x00 garbage\\n")
            except OSError: pass
        """,
        STRANGE,
    ),
    Way("no_end", 'while True: os.write(4, b"x" * 65536)', STRANGE, 5),
    Way("forged", 'os.write(4, b\'{"type": "result", "id": 9999, "value": 1}\\n\')', STRANGE),
    Way("null_type", "os.write(4, b'{\"type\": null}\\n')", STRANGE),
    Way("deep_line", 'os.write(4, b\'{"type": "result", "id": 1, "value": \' + b"[" * 60_000 + b"\\n")', STRANGE),
    Way(
        "asks",
        """
        while True: os.write(4, b'{"type": "ask", "id": 1, "what": "nothing", "arguments": {}}\\n')
        """,
        LATE,
        BRIEF,
    ),
    Way(
        "vast_asks",
        """
        import fcntl
        ask = b'{"type": "ask", "id": 1, "what": "nothing", "arguments": [' + b"[]," * 600_000 + b"0]}\\n"
        while True: os.write(4, ask)
        """,
        f"{LATE}|{STRANGE}",
        2,
    ),
    Way("vast", "return [[]] * 5_000_000", "the skill's result is not JSON: it"),
    Way("nan", 'return {"a": float("nan")}', "the skill's result is not JSON"),
    Way("no_json", "return [kept, bad, b'']", "the skill's result is not JSON"),
    Way("circle", "kept.append(kept)\nreturn kept", "the skill's result is not JSON"),
    Way(
        "evil_error",
        """
        class Evil(Exception):
            def __str__(self): raise self
            __repr__ = __str__
        raise Evil
        """,
        "Evil",
    ),
)
LEFTOVERS = (
    Way(
        "own_builtins", "import builtins; builtins.print = builtins.open = builtins.len = None", "it replaced builtins"
    ),
    Way("children", 'subprocess.Popen(["sleep", "86397"], start_new_session=True)', FINE),
    Way("thread_stays", "threading.Thread(target=time.sleep, args=(600,)).start()", "it left 1 threads behind"),
    Way("daemon_stays", "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", FINE),
    Way("fork_returns", "os.fork()", FINE),
    Way("own_json", "json.dumps = json.loads = None", FINE),
    Way("stdout", "sys.stdout.close(); sys.stderr = None", FINE),
    Way("streams", "os.closerange(0, 3)", FINE),
    Way("open_files", "kept.extend(open(os.devnull) for _ in range(10_000))", "OSError"),
    Way("modules", "sys.modules.clear()", FINE),
    Way("tracing", "def no(*_): raise SystemError\nthreading.settrace(no); sys.settrace(no)", "SystemError"),
    Way("at_exit", "import atexit; atexit.register(time.sleep, 600)", FINE),
    Way(
        "signals",
        """
        for one in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(one, lambda *_: os._exit(9))
        """,
        FINE,
    ),
    Way("timer", "signal.setitimer(signal.ITIMER_REAL, 0.2)", FINE),
    Way("chdir", 'os.chdir("/")', FINE),
    Way("environment", "os.environ.clear()", FINE),
    Way("umask", "os.umask(0o777)", FINE),
    Way("limits", "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", FINE),
    Way("file_size", "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))", FINE),
    Way("recursion_limit", "sys.setrecursionlimit(40)", FINE),
    Way("keeps_memory", "kept.append(bytearray(330 << 20))", FINE),
    Way("own_module", "del sys.modules[__name__]; globals().pop('kept')", FINE),
)
WAYS = (*ENDINGS, *LINES, *LEFTOVERS)
NAMED = ("exit", "segfault", "loop", "recursion", "memory", "threads", "close_all", "own_builtins")
"""Those that any plugin may stumble into."""
