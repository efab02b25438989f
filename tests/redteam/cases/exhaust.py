"""The machine used up: processes, memory, processor, disk, descriptors of the server."""

from __future__ import annotations

from ..case import Case, Category, bash, python, skill, tool
from ..criteria import either, holds_more, printed, server_died, slowed, took_longer

EXHAUST: Category = "exhaust"
SAME_LIMIT = "the limits per process hold without confinement, too"

CASES = (
    Case(
        "processes",
        EXHAUST,
        "start processes until none can be started",
        (
            (
                python(
                    """
                    os.setsid()
                    born = 0
                    for _ in range(700):
                        try:
                            if os.fork() == 0:
                                time.sleep(60)
                                os._exit(0)
                            born += 1
                        except OSError as error:
                            print(error)
                            break
                        if born % 25 == 0:
                            print("born", born, flush=True)
                    time.sleep(0.5)
                    print("all", born, flush=True)
                    os.kill(0, signal.SIGKILL)
                    """,
                ),
            ),
        ),
        either(printed(r"all ([3-9]\d\d|\d{4,})"), slowed),
        attempted="born",
        apart="quiet",
        pulse=True,
    ),
    Case(
        "processes-of-a-skill",
        EXHAUST,
        "start processes in a skill until none can be started",
        (
            (
                skill("""
                    born = []
                    try:
                        for _ in range(400):
                            child = os.fork()
                            if child == 0:
                                time.sleep(60)
                                os._exit(0)
                            born.append(child)
                    except OSError as error:
                        print(error)
                    time.sleep(0.5)
                    print("born", len(born))
                    for child in born:
                        os.kill(child, 9)
                        os.waitpid(child, 0)
                """),
            ),
        ),
        either(printed(r"born [1-9]\d\d"), slowed),
        attempted="born|it started more than",
        held_bare="the server itself counts the processes of a skill",
        apart="quiet",
        pulse=True,
    ),
    Case(
        "processor",
        EXHAUST,
        "calculate with two hundred processes",
        ((bash("for i in {1..200}; do (exec -a @MARK@ bash -c 'while :; do :; done') & done; sleep 60", ms=2000),),),
        slowed,
        attempted="timed_out: True",
        held_bare="the kernel shares the processor fairly",
        apart="quiet",
        pulse=True,
    ),
    Case(
        "memory-of-one-process",
        EXHAUST,
        "take three GiB in one process",
        (
            (
                python("""
                    held = []
                    try:
                        for number in range(48):
                            held.append(bytearray(64 << 20))
                    except MemoryError:
                        print("no more")
                    print("mebibytes", 64 * len(held))
                """),
            ),
        ),
        either(printed(r"mebibytes (2[2-9]\d\d|[3-9]\d{3})"), slowed),
        held_bare=SAME_LIMIT,
        apart="quiet",
        pulse=True,
    ),
    Case(
        "memory-of-a-skill",
        EXHAUST,
        "take one GiB in a skill",
        (
            (
                skill("""
                    held = []
                    try:
                        for number in range(16):
                            held.append(bytearray(64 << 20))
                    except MemoryError:
                        print("no more")
                    print("mebibytes", 64 * len(held))
                """),
            ),
        ),
        printed(r"mebibytes (6[4-9]\d|[7-9]\d\d|\d{4})"),
        held_bare=SAME_LIMIT,
        apart="quiet",
    ),
    Case(
        "memory-as-files",
        EXHAUST,
        "take memory by files in /dev/shm and /tmp",
        (
            (
                bash("""
                    for d in /dev/shm /tmp; do for n in 1 2 3; do head -c 100M /dev/zero > $d/fill-$n; done; done
                    echo filled $(du -cm /dev/shm/fill-* /tmp/fill-* | tail -1); rm -f /dev/shm/fill-* /tmp/fill-*
                """),
            ),
        ),
        printed(r"filled (5[2-9]\d|[6-9]\d\d|\d{4,})"),
        apart="quiet",
    ),
    Case(
        "order-of-dying",
        EXHAUST,
        "be no more likely than the server to be killed when memory runs out",
        (
            (
                python("""
                    for value in ("-1000", "-500", "0"):
                        def write():
                            with open("/proc/self/oom_score_adj", "w") as file:
                                file.write(value)
                        attempt(write)
                    print("score", content("/proc/self/oom_score_adj"))
                """),
            ),
        ),
        printed(r"score (-\d+|0)\b"),
    ),
    Case(
        "output-without-end",
        EXHAUST,
        "print as fast as the system allows, on both streams",
        ((bash("yes & yes >&2", ms=2000), bash("cat /dev/zero", ms=2000)),),
        either(slowed, holds_more("@DATA@/scratch", 40)),
        attempted="timed_out: True",
        held_bare="what is printed is bounded by the server itself",
        apart="quiet",
        pulse=True,
    ),
    Case(
        "output-of-a-skill",
        EXHAUST,
        "print without end in a skill, on both streams and into the server's pipe",
        (
            (
                skill(
                    """
                    text = b"x" * 65536 + b"\\n"
                    outgoing = object.__getattribute__(mesh_client, "_asking")._send.__self__._outgoing.fileno()
                    while True:
                        for number in (1, 2, outgoing):
                            os.write(number, text)
                    """,
                    name="evil_brief",
                ),
            ),
        ),
        either(slowed, took_longer(8)),
        attempted="broke the protocol|0.7",
        held_bare="what a worker prints is bounded by the server itself",
        apart="quiet",
        pulse=True,
    ),
    Case(
        "one-large-file",
        EXHAUST,
        "make a file of 700 MiB",
        ((bash("head -c 700M /dev/zero > large; fallocate -l 700M large2; ls -la large large2"),),),
        holds_more("@DATA@/workspace", 1100),
        held_bare=SAME_LIMIT,
        apart="quiet",
    ),
    Case(
        "depth",
        EXHAUST,
        "leave a tree in the scratch that is too deep to be deleted",
        (
            (
                python("""
                    os.chdir(os.environ["SCRATCH"])
                    for _ in range(6000):
                        os.mkdir("d" * 100)
                        os.chdir("d" * 100)
                    open("bottom", "w").close()
                """),
            ),
        ),
        lambda scene: "the tree is still there" if any((scene.data / "scratch").glob(f"*/{'d' * 100}")) else "",
        held_bare="what deletes a scratch knows no depth",
        apart="quiet",
        afterwards="delete",
    ),
    Case(
        "pattern-that-never-ends",
        EXHAUST,
        "have grep match a pattern that takes for ever, many times at once",
        (
            (bash("for n in {1..20}; do head -c 4000 /dev/zero | tr '\\0' a > $n.txt; done"),),
            tuple(tool("grep", pattern=f"(a|a)*(a|aa)+{n}$") for n in range(6)),
        ),
        either(slowed, server_died),
        held_bare="searches run in a process of their own",
        apart="quiet",
        pulse=True,
    ),
)
