"""Rights that the command was not given: from the kernel, from programs that hand them out, from the product itself."""

from __future__ import annotations

from ..case import Case, Category, bash, python, skill, tool
from ..criteria import asked, either, heard, leaked, printed

RAISE: Category = "raise"

CASES = (
    Case(
        "mount",
        RAISE,
        "mount a file system",
        (
            (
                python("""
                    attempt(os.mkdir, "/tmp/m")
                    for kind in (b"tmpfs", b"proc", b"devpts", b"sysfs"):
                        print("mounted" if call(165, b"none", b"/tmp/m", kind, 0, 0) == 0 else "refused", kind)
                    print("remounted" if call(165, 0, b"/", 0, 32 | 4096, 0) == 0 else "refused", "/")
                    for _ in range(4):
                        call(166, b"/tmp/m", 2)
                """),
            ),
        ),
        printed(r"(re)?mounted \S+"),
    ),
    Case(
        "new-mount-interface",
        RAISE,
        "mount by fsopen, open_tree and move_mount",
        (
            (
                python("""
                    print("fsopen", call(430, b"tmpfs", 0), "open_tree", call(428, -100, b"/", 1))
                    print("mount_setattr", call(442, -1, b"", 0x1000, 0, 0))
                """),
            ),
        ),
        printed(r"(fsopen|open_tree) \d+"),
    ),
    Case(
        "user-namespace",
        RAISE,
        "become root in a user namespace of one's own, by program and by system call",
        (
            (
                bash("unshare -Urm sh -c 'echo root-by-program $(id -u)'"),
                python("""
                    print("unshare", call(272, 0x10000000))
                """),
                python("""
                    child = call(56, 0x10000000 | 17, 0, 0, 0, 0)
                    if child == 0:
                        os._exit(0)
                    print("clone", child)
                    class Arguments(ctypes.Structure):
                        names = "flags pidfd child parent exit stack size tls"
                        _fields_ = [(name, ctypes.c_uint64) for name in names.split()]
                    child = call(435, ctypes.byref(Arguments(flags=0x10000000, exit=17)), 64)
                    if child == 0:
                        os._exit(0)
                    print("clone3", child)
                """),
            ),
        ),
        printed(r"root-by-program 0|unshare 0|clone3? [1-9]\d*"),
    ),
    Case(
        "other-namespaces",
        RAISE,
        "make namespaces for mounts, network, processes, names and time",
        (
            (
                python("""
                    for flag in (0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000, 0x2000000, 0x80):
                        print("unshare", call(272, flag))
                """),
            ),
        ),
        printed("unshare 0"),
    ),
    Case(
        "namespaces-of-others",
        RAISE,
        "enter the namespaces of process 1, of the server, of any process",
        (
            (
                bash("nsenter -t @PID@ -m -n -p cat /etc/shadow; nsenter -t 1 -m cat /etc/shadow"),
                python("""
                    for pid in pids():
                        handle = call(434, int(pid), 0)
                        print("joined" if handle >= 0 and call(308, handle, 0x20000) == 0 else "refused", pid)
                """),
            ),
        ),
        either(leaked("etc"), printed(r"joined \d+")),
    ),
    Case(
        "programs-that-make-root",
        RAISE,
        "start programs with the setuid bit: su, passwd, one of the machine's own",
        (
            (
                bash(
                    """
                    su -c 'echo su-says $(id -u)' root </dev/null; sudo -n id
                    @SITE@/suid-id -u | sed 's/^/suid-says /'
                    """
                ),
            ),
        ),
        printed(r"(su|suid)-says 0"),
    ),
    Case(
        "become-root",
        RAISE,
        "become user 0, group 0, or a member of other groups by system call",
        (
            (
                python("""
                    for number, arguments in ((105, (0,)), (117, (0, 0, 0)), (119, (0, 0, 0)), (116, (0, None))):
                        attempt(call, number, *arguments)
                    print("user", os.geteuid(), "groups", os.getgroups())
                """),
            ),
        ),
        printed(r"user 0\b"),
    ),
    Case(
        "capabilities",
        RAISE,
        "hold a capability, or take one: effective, permitted, bounding, ambient",
        (
            (
                python("""
                    head = struct.pack("=Ii", 0x20080522, 0)
                    print("capset", call(126, head, struct.pack("=6I", *[0xFFFFFFFF] * 6)))
                    print("ambient", libc.prctl(47, 2, 21, 0, 0))
                    print(content("/proc/self/status"))
                """),
            ),
        ),
        printed(r"Cap(Eff|Prm|Amb|Bnd):\s*0*[1-9a-f]|capset 0|ambient 0"),
    ),
    Case(
        "promises-taken-back",
        RAISE,
        "take back no_new_privs and the filter",
        (
            (
                python("""
                    print("prctl", libc.prctl(38, 0, 0, 0, 0), libc.prctl(22, 0, 0, 0, 0))
                    print(content("/proc/self/status"))
                """),
            ),
        ),
        printed(r"NoNewPrivs:\s*0|Seccomp:\s*0"),
    ),
    Case(
        "keys",
        RAISE,
        "use the kernel's key rings",
        (
            (
                python("""
                    print("key", call(248, b"user", b"@MARK@", b"x", 1, -3))
                    print("ring", call(250, 0, -3, 1))
                """),
            ),
        ),
        printed(r"(key|ring) [1-9]\d*"),
    ),
    Case(
        "another-root",
        RAISE,
        "change the root folder with chroot and pivot_root",
        (
            (
                python("""
                    attempt(os.mkdir, "/tmp/r")
                    print("pivot_root", call(155, b"/tmp/r", b"/tmp/r"))
                    print("chroot", call(161, b"/tmp/r"))
                """),
            ),
        ),
        printed(r"(chroot|pivot_root) 0"),
    ),
    Case(
        "trace-a-child",
        RAISE,
        "trace a child, to have it make calls that are not filtered",
        (
            (
                python("""
                    child = os.fork()
                    if child == 0:
                        print("traced" if call(101, 0, 0, 0, 0) == 0 else "refused", flush=True)
                        os._exit(0)
                    os.waitpid(child, 0)
                """),
            ),
        ),
        printed("traced"),
    ),
    Case(
        "levers-of-the-kernel",
        RAISE,
        "use what exploits begin with: userfaultfd, perf events, bpf, io_uring, modules, kcmp",
        (
            (
                python("""
                    event = ctypes.create_string_buffer(struct.pack("=IIQ", 1, 120, 9) + bytes(120))
                    levers = {
                        "userfaultfd": (323, 1), "io_uring": (425, 4, ctypes.create_string_buffer(120)),
                        "perf": (298, event, 0, -1, -1, 0),
                        "bpf": (321, 0, struct.pack("=5I", 2, 4, 4, 1, 0), 20), "fanotify": (300, 0, 0),
                        "memory-policy": (312, os.getpid(), os.getpid(), 0, 0, 0),
                    }
                    for name, arguments in levers.items():
                        got = call(*arguments)
                        print("lever" if got >= 0 else "refused", name, got)
                """),
            ),
        ),
        printed(r"lever \S+"),
    ),
    Case(
        "devices",
        RAISE,
        "make device nodes for memory and disks",
        (
            (
                python("""
                    for kind, device in ((0o20666, 0x101), (0o60666, 0xFD00), (0o60666, 0x800)):
                        path = f"@WORKSPACE@/device-{device}"
                        attempt(os.mknod, path, kind, device)
                        attempt(lambda: print("opened", os.open(path, os.O_RDONLY)))
                """),
            ),
        ),
        printed(r"opened \d+"),
        held_bare="the container's root may not make devices",
    ),
    Case(
        "process-1-of-the-box",
        RAISE,
        "write to the memory of process 1, which has no limits and may have more rights",
        (
            (
                python("""
                    attempt(lambda: print("writable", os.open("/proc/1/mem", os.O_RDWR)))
                    attempt(lambda: print("writable", call(311, 1, 0, 0, 0, 0, 0) == 0 or None))
                    attempt(lambda: print("rights", content("/proc/1/status").split("CapEff:")[1].split()[0]))
                """),
            ),
        ),
        printed(r"writable \d+"),
    ),
    Case(
        "limits-raised",
        RAISE,
        "raise one's own limits, or those of one's process 1",
        (
            (
                bash("for l in u n c v d f; do (ulimit -H$l unlimited 2>/dev/null && echo raised $l); done; true"),
                bash(
                    """
                    prlimit --pid 1 --nproc=9999:9999 && echo raised of-1
                    prlimit --nofile=999999:999999 true && echo raised n
                    """
                ),
            ),
        ),
        printed(r"raised \S+"),
        held_bare="the limits are hard ones for whoever is not the machine's root",
    ),
    Case(
        "priority",
        RAISE,
        "come before all others: real time, and better than nice",
        (
            (
                python("""
                    attempt(lambda: (os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)), print("real time")))
                    attempt(lambda: print("nice", os.nice(-10)))
                """),
            ),
        ),
        printed(r"real time|nice -"),
        held_bare="the container's root has no right to the machine's priorities",
    ),
    Case(
        "mesh-options",
        RAISE,
        "have mesh_client call another address, with other headers",
        (
            (
                skill("""
                    for options in (
                        {"base_url": "http://127.0.0.1:18080/@MARK@"}, {"extra_headers": {"x-stolen": "@MARK@"}},
                        {"extra_query": {"x": "@MARK@"}}, {"api_key": "@MARK@"}, {"timeout": 999}, {"tools": []},
                    ):
                        attempt(lambda: print(mesh_client.chat([{"role": "user", "content": "hi"}], **options)))
                """),
            ),
        ),
        either(asked("@MARK@"), heard()),
        held_bare="the server passes on what it knows and nothing else",
    ),
    Case(
        "mesh-routes",
        RAISE,
        "have the server call other routes and methods, by forged questions in its pipe",
        (
            (
                skill("""
                    names = ["models", "close", "_client", "__init__", "_call", "get", "put", "chat.__self__"]
                    asking = object.__getattribute__(mesh_client, "_asking")
                    for name in names:
                        for arguments in ({}, {"url": "http://127.0.0.1:18080/@MARK@"}, {"path": "/budgets?@MARK@"}):
                            future = asking.ask(name, arguments)
                            attempt(lambda: print(name, future.result(3)))
                    raw = asking.ask("embed", {"texts": ["x"], "model": "../../@MARK@"})
                    attempt(lambda: print("embed", str(raw.result(3))[:80]))
                """),
            ),
        ),
        either(asked("@MARK@"), heard(), leaked("token", "mesh")),
        held_bare="the server offers two calls and looks nothing up",
    ),
    Case(
        "forged-answers",
        RAISE,
        "break the protocol with the server: answers to calls that were not made, deep and broken JSON",
        (
            (
                skill("""
                    asking = object.__getattribute__(mesh_client, "_asking")
                    for message in (
                        {"type": "result", "id": 999, "value": "forged"},
                        {"type": "loaded", "skills": [{"name": "bash"}]},
                    ):
                        attempt(asking._send, message)
                """),
                skill("""
                    asking = object.__getattribute__(mesh_client, "_asking")
                    asking._send.__self__._outgoing.write(b"[" * 100000 + b"\\n")
                    asking._send.__self__._outgoing.flush()
                """),
            ),
        ),
        lambda scene: "" if scene.server_works() else "the server does not answer",
        attempted="broke the protocol",
        held_bare="the server reads answers strictly",
    ),
    Case(
        "in-place-of-a-tool",
        RAISE,
        "declare a skill by the name of a tool that is always allowed",
        ((tool("read", path="does-not-exist"),),),
        printed("shadowed"),
        attempted="does not exist",
        held_bare="names of the built-in tools are taken",
    ),
)
