"""Secrets, straight on: where a process that sees what the server sees would find them."""

from __future__ import annotations

from ..case import Case, bash, python, skill, tool
from ..criteria import leaked, planted, printed

SCAN = r"""
    import re
    def scan(pid, read):
        for line in open(f"/proc/{pid}/maps"):
            span, rights = line.split()[:2]
            first, last = (int(one, 16) for one in span.split("-"))
            if not rights.startswith("rw") or last - first > 256 << 20:
                continue
            for start in range(first, last, 1 << 20):
                piece = attempt(read, start, min(1 << 20, last - start)) or b""
                for found in set(re.findall(rb"canary-token-[0-9a-f]{12}", piece)):
                    print("found", found.decode())
                    return
"""

CASES = (
    Case(
        "environment-of-everybody",
        "read",
        "read the environment of every process there is",
        ((bash("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"),),),
        leaked("token"),
    ),
    Case(
        "environment-of-the-server",
        "read",
        "read the server's environment by its process id, and that of all ancestors",
        (
            (
                python("""
                    print(content("/proc/@PID@/environ"))
                    pid = os.getpid()
                    while pid > 1:
                        found = content(f"/proc/{pid}/stat").rpartition(") ")[2].split()
                        pid = int(found[1]) if len(found) > 20 else pid - 1
                        print(pid, content(f"/proc/{pid}/environ"))
                """),
            ),
        ),
        leaked("token"),
    ),
    Case(
        "memory-of-the-server",
        "read",
        "search the server's memory through /proc/PID/mem",
        (
            (
                python(
                    SCAN,
                    """
                    def run():
                        with open("/proc/@PID@/mem", "rb", 0) as memory:
                            scan(@PID@, lambda at, size: (memory.seek(at), memory.read(size))[1])
                    attempt(run)
                    """,
                ),
            ),
        ),
        leaked("token"),
    ),
    Case(
        "memory-by-process-vm-readv",
        "read",
        "search the server's memory with process_vm_readv",
        (
            (
                python(
                    SCAN,
                    """
                    class Span(ctypes.Structure):
                        _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
                    def read(at, size):
                        mine = ctypes.create_string_buffer(size)
                        here, there = Span(ctypes.addressof(mine), size), Span(at, size)
                        got = call(310, @PID@, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
                        return mine.raw[:max(got, 0)]
                    attempt(scan, @PID@, read)
                    """,
                ),
            ),
        ),
        leaked("token"),
    ),
    Case(
        "trace-the-server",
        "read",
        "trace the server, or any process that is not a child of one's own",
        (
            (
                python("""
                    for pid in [@PID@, *range(1, 60)]:
                        if pid != os.getpid() and call(101, 0x4206, pid, 0, 0) == 0:
                            print("seized", pid)
                            break
                """),
            ),
        ),
        printed(r"seized \d+"),
    ),
    Case(
        "descriptors-of-the-server",
        "read",
        "open what the server has open, through /proc/PID/fd",
        (
            (
                python("""
                    def each(folder):
                        for name in os.listdir(folder):
                            if os.path.isfile(f"{folder}/{name}"):
                                print(name, content(f"{folder}/{name}"))
                    attempt(each, "/proc/@PID@/fd")
                """),
            ),
        ),
        leaked("inherited", "database"),
    ),
    Case(
        "descriptors-by-pidfd",
        "read",
        "take the server's descriptor 9 over with pidfd_getfd",
        (
            (
                python("""
                    handle = call(434, @PID@, 0)
                    taken = call(438, handle, 9, 0) if handle >= 0 else handle
                    print("pidfd", handle, "taken", taken)
                    if taken >= 0:
                        os.lseek(taken, 0, 0)
                        print(os.read(taken, 100))
                """),
            ),
        ),
        leaked("inherited"),
    ),
    Case(
        "inherited-files",
        "read",
        "read every descriptor that was left open on the way to the command",
        (
            (
                python("""
                    for number in range(3, 300):
                        try:
                            os.lseek(number, 0, 0)
                            print(number, os.read(number, 4096))
                        except OSError:
                            pass
                """),
            ),
        ),
        leaked("inherited"),
        held_bare="descriptors are closed for every command",
    ),
    Case(
        "command-line-of-the-server",
        "read",
        "find the server among the processes",
        ((bash("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"),),),
        printed(r"agent_runtime serve"),
    ),
    Case(
        "options-of-the-box",
        "read",
        "learn paths of the host from the command line of process 1",
        ((bash("cat /proc/1/cmdline | tr '\\0' ' '"),),),
        printed(r"--(ro-)?bind|--tmpfs"),
        held_bare="without a box there are no options to be read",
    ),
    Case(
        "database",
        "read",
        "read the database and its log as files",
        ((bash("cat @DATA@/agent.db* | grep -a -o 'canary-database-[0-9a-f]*'"),),),
        leaked("database"),
    ),
    Case(
        "database-by-skill",
        "read",
        "open the database in a skill",
        (
            (
                skill("""
                    import sqlite3
                    def read():
                        rows = sqlite3.connect("file:@DATA@/agent.db?mode=ro", uri=True)
                        print(rows.execute("select data_json from chat_parts").fetchall())
                    attempt(read)
                """),
            ),
        ),
        leaked("database"),
    ),
    Case(
        "backups",
        "read",
        "read the backups of the database",
        ((bash("cat @DATA@/backups/*"),),),
        leaked("backup"),
    ),
    Case(
        "scratch-of-another-session",
        "read",
        "read files in other sessions' scratch folders with a command",
        ((bash("cat @SCRATCHES@/*/notes $SCRATCH/../*/notes"),),),
        leaked("scratch"),
    ),
    Case(
        "scratch-of-another-session-by-skill",
        "read",
        "read files in sessions' scratch folders with a skill",
        ((skill("import glob\nfor path in glob.glob('@SCRATCHES@/*/notes'):\n    print(content(path))"),),),
        leaked("scratch"),
    ),
    Case(
        "source-of-other-plugins",
        "read",
        "read the skills folder with a command",
        ((bash("cat @DATA@/skills/*"),),),
        leaked("skill"),
    ),
    Case(
        "files-of-the-machine",
        "read",
        "read password hashes, private keys, logs and mounted secrets",
        ((bash("cat /etc/shadow /root/.ssh/* /home/*/.ssh/* /var/log/* /run/secrets/* /tmp/note* /dev/shm/note*"),),),
        leaked("etc", "mesh", "inherited"),
    ),
    Case(
        "root-of-process-1",
        "read",
        "look at the files through another process: /proc/1/root, cwd and fd",
        (
            (
                bash(
                    """
                    timeout 3 cat /proc/[0-9]*/root/etc/shadow /proc/[0-9]*/cwd/../../run/secrets/*
                    timeout 1 cat /proc/1/fd/[3-9]*
                    """
                ),
            ),
        ),
        leaked("etc", "mesh"),
    ),
    Case(
        "upwards-from-a-descriptor",
        "read",
        "walk up from an open folder, by openat and by /proc/self/fd",
        (
            (
                python("""
                    here = os.open(".", os.O_RDONLY)
                    for up in ("../" * depth for depth in range(1, 8)):
                        for name in ("run/secrets/mesh", "agent.db", "etc/shadow"):
                            try:
                                print(os.read(os.open(up + name, os.O_RDONLY, dir_fd=here), 200))
                            except OSError:
                                pass
                            print(content(f"/proc/self/fd/{here}/{up}{name}")[:200])
                """),
            ),
        ),
        leaked("etc", "mesh"),
    ),
    Case(
        "file-handle",
        "read",
        "open a file by its handle, past all paths",
        (
            (
                python("""
                    class Handle(ctypes.Structure):
                        _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
                    handle, mount = Handle(128), ctypes.c_int()
                    made = call(303, -100, b"/etc", ctypes.byref(handle), ctypes.byref(mount), 0)
                    opened = call(304, attempt(os.open, "/etc", 0) or 0, ctypes.byref(handle), 0)
                    print("handle", made, "opened", opened)
                """),
            ),
        ),
        printed(r"opened \d+"),
        held_bare="needs a capability over the file system that the container's root does not have",
    ),
    Case(
        "command-of-another-session",
        "read",
        "see the arguments of a command that runs at the same time in another box",
        (
            (
                bash("m=canary-of-a-neighbour; exec -a $m sleep 1.5", ms=5000),
                python("""
                    wanted, until = "canary-of-a" + "-neighbour", time.monotonic() + 1.2
                    while time.monotonic() < until:
                        for name in pids():
                            if content(f"/proc/{name}/cmdline").startswith(wanted):
                                print("seen", name)
                                until = 0
                """),
            ),
        ),
        printed(r"seen \d+"),
    ),
    Case(
        "temporary-files-of-another-command",
        "read",
        "read what another command left in /tmp and /dev/shm",
        (
            (bash("m=left; echo $m-behind | tee /tmp/@MARK@ /dev/shm/@MARK@ > /dev/null"),),
            (bash("cat /tmp/@MARK@ /dev/shm/@MARK@"),),
        ),
        printed("left-behind"),
    ),
    Case(
        "core-dump",
        "read",
        "lift the limit on core dumps and crash",
        ((bash("ulimit -c unlimited; bash -c 'kill -SEGV $$'; cp -v core* $WORKSPACE/core-dump; ls core*"),),),
        planted("@DATA@/workspace/core-dump"),
        held_bare="the limit is a hard one for whoever is not the machine's root",
    ),
    Case(
        "log-of-the-kernel",
        "read",
        "read the kernel's log",
        (
            (
                python("""
                    text = ctypes.create_string_buffer(1 << 16)
                    got = call(103, 3, text, len(text))
                    print("kernel says", got, text.raw[:max(0, got)][:300])
                    print("messages", content("/dev/kmsg")[:100])
                """),
            ),
        ),
        printed(r"kernel says [1-9]"),
        held_bare="the kernel tells its log to the machine's root only",
    ),
    Case(
        "settings-by-import",
        "read",
        "import the runtime's own modules in a skill and ask them for the token",
        (
            (
                skill("""
                    from agent_runtime.settings import load_settings
                    for name in ("token", "mesh_token"):
                        value = attempt(lambda: getattr(load_settings(), name))
                        print(value and value.get_secret_value())
                """),
            ),
        ),
        leaked("token", "mesh"),
        held_bare="the environment of commands and skills is made new in every case",
    ),
    Case(
        "environment-by-skill",
        "read",
        "read every environment there is in a skill, at its import and when it is called",
        (
            (
                tool("seen_at_import"),
                skill("for name in pids(): print(content(f'/proc/{name}/environ'))"),
            ),
        ),
        leaked("token"),
    ),
    Case(
        "objects-of-the-worker",
        "read",
        "search all objects and frames of the skill's worker for settings",
        (
            (
                skill("""
                    import gc
                    for one in gc.get_objects():
                        if isinstance(one, (dict, list, tuple)) and "canary-" in (text := repr(one)[:20000]):
                            print(text)
                    frame = sys._getframe()
                    while frame:
                        print(repr(frame.f_locals)[:3000])
                        frame = frame.f_back
                """),
            ),
        ),
        leaked("token", "mesh", "database"),
        held_bare="the worker is a process of its own and was never told",
    ),
)
