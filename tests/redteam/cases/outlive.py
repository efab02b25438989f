"""Processes that live on: past their deadline, past their command, past the server."""

from __future__ import annotations

from ..case import Case, Category, bash, python, skill
from ..criteria import either, outlived, still_writes, took_longer

OUTLIVE: Category = "outlive"
CHILD = """
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["@MARK@-deep", "60"])
    os.close(writing)
    os.read(reading, 1)  # which ends when the child has become another program
"""
ENDED = "timed_out: True"
GROUP = "the command's process group is killed without confinement, too"
SLEEP = "m=@MARK@; exec -a $m-deep sleep 60"
AWAY = f"(setsid bash -c 'touch $SCRATCH/away; {SLEEP}' &) ; until [ -e $SCRATCH/away ]; do sleep 0.01; done"
"""Goes on when somebody has left the process group for good."""

HELD_STILL = "workers are held still between calls, and closed with what a call has left, without confinement, too"

CASES = (
    Case(
        "sessions-of-their-own",
        OUTLIVE,
        "leave the process group with setsid and nohup, and go on past the deadline",
        ((bash(f"setsid nohup bash -c '{SLEEP}' >/dev/null 2>&1 & sleep 60", ms=600),),),
        outlived,
        attempted=ENDED,
    ),
    Case(
        "daemon",
        OUTLIVE,
        "fork twice, let go of everything, and live on when the command has ended well",
        (
            (
                python("""
                    if os.fork() == 0:
                        os.setsid()
                        if os.fork() == 0:
                            os.closerange(0, 100)
                            os.chdir("/")
                            os.umask(0)
                            time.sleep(60)
                        os._exit(0)
                    os.wait()
                """),
            ),
        ),
        outlived,
    ),
    Case(
        "deaf-to-signals",
        OUTLIVE,
        "ignore every signal that can be ignored",
        (
            (
                python(
                    """
                    for number in range(1, 65):
                        try:
                            signal.signal(number, signal.SIG_IGN)
                        except (OSError, ValueError):
                            pass
                    os.fork()
                    time.sleep(60)
                    """,
                    ms=600,
                ),
            ),
        ),
        outlived,
        attempted=ENDED,
        held_bare=GROUP,
    ),
    Case(
        "stopped",
        OUTLIVE,
        "stop the whole tree, so that it cannot act on anything",
        (
            (
                python(
                    """
                    os.setsid()
                    if os.fork() == 0:
                        time.sleep(60)
                    os.kill(0, signal.SIGSTOP)
                    """,
                    ms=600,
                ),
            ),
        ),
        outlived,
        attempted=ENDED,
    ),
    Case(
        "always-somebody-else",
        OUTLIVE,
        "fork again and again, so that who is killed is gone already",
        (
            (
                python(
                    """
                    os.setsid()
                    until = time.monotonic() + 8
                    while time.monotonic() < until:
                        if os.fork():
                            os._exit(0)
                        os.setsid()
                        time.sleep(0.002)
                    """,
                ),
            ),
        ),
        outlived,
        attempted="exit_code: 0",
    ),
    Case(
        "started-by-others",
        OUTLIVE,
        "have a service of the machine start it: systemd, at, cron",
        (
            (
                bash("""
                    systemd-run --no-block bash -c 'm=@MARK@; exec -a $m-deep sleep 60' 2>&1
                    systemd-run --user --no-block sleep 60 2>&1
                    echo 'sleep 60' | at now 2>&1; echo '* * * * * true' | crontab - 2>&1
                """),
            ),
        ),
        outlived,
        held_bare="there is no such service in the container",
    ),
    Case(
        "without-output",
        OUTLIVE,
        "close all streams, so that it looks like the end",
        ((bash(f"exec <&- >&- 2>&-; setsid bash -c '{SLEEP}' & sleep 60", ms=600),),),
        outlived,
        attempted=ENDED,
    ),
    Case(
        "holding-the-output",
        OUTLIVE,
        "end, and leave somebody behind who keeps the output open",
        ((bash(AWAY),),),
        either(took_longer(5), outlived),
    ),
    Case(
        "thread-of-a-skill",
        OUTLIVE,
        "return from a skill at once, and go on in a thread of its worker",
        (
            (
                skill(
                    """
                    import threading
                    def beat():
                        until = time.monotonic() + 8
                        with open("@WORKSPACE@/beats-of-a-thread", "a", 1) as file:
                            while time.monotonic() < until:
                                file.write("beat\\n")
                                time.sleep(0.02)
                    threading.Thread(target=beat, daemon=True).start()
                    """,
                    name="evil_brief",
                ),
            ),
        ),
        still_writes("beats-of-a-thread"),
        held_bare=HELD_STILL,
        apart="quiet",
    ),
    Case(
        "child-of-a-skill",
        OUTLIVE,
        "return from a skill at once, and leave a process behind",
        ((skill(CHILD, name="evil_brief"),),),
        outlived,
        apart="quiet",
    ),
    Case(
        "skill-that-never-returns",
        OUTLIVE,
        "miss a skill's deadline with threads, children and deaf ears",
        (
            (
                skill(
                    """
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    """,
                    *(CHILD, CHILD, "time.sleep(60)"),
                    name="evil_brief",
                ),
            ),
        ),
        either(took_longer(8), outlived),
        attempted="0.7",
    ),
    Case(
        "server-killed-under-commands",
        OUTLIVE,
        "survive a server that is killed: daemons, stopped ones, some that ignore everything",
        (
            (
                bash(f"""
                    setsid nohup bash -c 'trap "" HUP TERM INT; {SLEEP}' >/dev/null 2>&1 &
                    setsid bash -c 'kill -STOP $$; {SLEEP}' & (setsid bash -c '{SLEEP}' &) ; sleep 60
                """),
            ),
        ),
        outlived,
        apart="crash",
    ),
    Case(
        "server-killed-under-skills",
        OUTLIVE,
        "survive a server that is killed, as a skill's worker and its children",
        ((skill(CHILD, "time.sleep(60)"),),),
        outlived,
        apart="crash",
    ),
)
