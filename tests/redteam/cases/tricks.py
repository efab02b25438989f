"""Secrets by way of the server's own tools: links, races and names that lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from agent_testing import Call

from ..case import PARALLEL, Case, bash, python, tool
from ..criteria import changed, leaked, prompted, took_longer

ITSELF = "the file tools check paths themselves"
TOOLED = r"(?i)outside|denied|not|error|entries|matches|content"
RACE = 15
"""Calls of a tool at a time, while the links are being swapped."""
RACED = r"swaps \d{2,}"
"""The links were swapped again and again while the calls were made: it ends with the last of them."""


def race(name: str, outside: str, calls: Iterable[Call], inner: str = "") -> tuple[Call, ...]:
    """Calls that begin when `name/f` and a link to the outside change places as fast as the system allows.

    They come in two waves: in between all slots for calls are taken by somebody who waits. The last one ends it.
    """
    wait = f"for i in {{1..500}}; do [ -e {name}-on ] && break; sleep 0.01; done; sleep 0.1"
    waves = [(bash(f"{wait} # {wave}-{n}") for n in range(PARALLEL - 1)) for wave in range(2)]
    several = list(calls)
    return (
        swap(name, outside, inner),
        *(one for wave in waves for one in (*wave, *several)),
        bash(f"touch {name}-off"),
    )


def swap(name: str, outside: str, inner: str) -> Call:
    """With an `inner` file f is a folder."""
    return python(f"""
        import shutil
        shutil.rmtree("{name}", ignore_errors=True)
        os.makedirs("{name}/f" if "{inner}" else "{name}")
        with open("{name}/f/{inner}" if "{inner}" else "{name}/f", "w") as file:
            file.write("untouched\\n")
        os.symlink("{outside}", "{name}/link")
        open("{name}-on", "w").close()
        folder, until, swaps = os.open("{name}", 0), time.monotonic() + 10, 0
        while time.monotonic() < until and not os.path.exists("{name}-off"):
            swaps += call(316, folder, b"f", folder, b"link", 2) == 0
            time.sleep(swaps % 7 / 20000)  # who never sleeps waits for the processor while the others work
            if not os.path.islink("{name}/f") and not os.path.islink("{name}/link"):
                os.unlink("{name}/link")  # a tool has put a file in its place
                os.symlink("{outside}", "{name}/link")
        print("swaps", swaps)
    """)


CASES = (
    Case(
        "read-outside",
        "read",
        "name files outside to the read tool: absolute, with .., with /proc/self",
        (
            tuple(
                tool("read", path=path)
                for path in (
                    "@DATA@/agent.db",
                    "../backups/agent-1.txt",
                    "/run/secrets/mesh",
                    "/proc/self/environ",
                    "/proc/self/cwd/../run/secrets/mesh",
                    "@WORKSPACE@/../../../run/secrets/mesh",
                    "./x/../../backups/agent-1.txt",
                )
            ),
        ),
        leaked("token", "mesh", "backup", "database"),
        attempted=TOOLED,
        held_bare=ITSELF,
    ),
    Case(
        "read-through-a-link",
        "read",
        "let the read tool follow a link that a command made",
        (
            (
                bash(
                    """
                    ln -sf /run/secrets/mesh rl1; ln -sf /proc/self/environ rl2
                    ln -sfn @DATA@/backups rl3; ln -sfn rl3 rl4
                    """
                ),
            ),
            tuple(tool("read", path=path) for path in ("rl1", "rl2", "rl3/agent-1.txt", "rl4/agent-1.txt")),
        ),
        leaked("token", "mesh", "backup"),
        held_bare=ITSELF,
    ),
    Case(
        "read-through-a-hard-link",
        "read",
        "give a file of the server a second name in the workspace, then read that",
        (
            (bash("ln @DATA@/backups/agent-1.txt hard1; ln /run/secrets/mesh hard2; cp -l @DATA@/agent.db hard3"),),
            (tool("read", path="hard1"), tool("read", path="hard2"), bash("cat hard1 hard2 hard3")),
        ),
        leaked("mesh", "backup", "database"),
    ),
    Case(
        "read-race",
        "read",
        "swap a file for a link between the read tool's check and its use",
        (race("race1", "/run/secrets/mesh", (tool("read", path="race1/f", limit=n) for n in range(1, RACE))),),
        leaked("mesh"),
        attempted=RACED,
        held_bare="the file tools open without following links",
    ),
    Case(
        "read-race-of-folders",
        "read",
        "swap a folder for a link to the backups while the read tool walks through it",
        (
            race(
                *("race2", "@DATA@/backups"),
                (tool("read", path="race2/f/agent-1.txt", limit=n) for n in range(1, RACE)),
                "agent-1.txt",
            ),
        ),
        leaked("backup"),
        attempted=RACED,
        held_bare="the file tools open without following links",
    ),
    Case(
        "search-outside",
        "read",
        "name folders outside to glob and grep, in the path and in the pattern",
        (
            (
                tool("grep", pattern="canary", path="@DATA@"),
                tool("grep", pattern="canary", path=".."),
                tool("grep", pattern="canary", path="/run/secrets/mesh"),
                tool("grep", pattern="canary", include="../**"),
                tool("glob", pattern="../../**"),
                tool("glob", pattern="@SCRATCHES@/*/notes"),
                tool("grep", pattern="canary-|canary-scratch", path="@SCRATCHES@"),
            ),
        ),
        leaked("mesh", "backup", "scratch", "skill"),
        attempted=TOOLED,
        held_bare=ITSELF,
    ),
    Case(
        "search-through-links",
        "read",
        "let glob and grep follow links that a command made",
        (
            (bash("mkdir -p sl; ln -sfn @DATA@ sl/data; ln -sf /run/secrets/mesh sl/mesh; ln -sfn / sl/root"),),
            (
                tool("grep", pattern="canary", path="sl"),
                tool("grep", pattern="canary", path="sl/data/backups"),
                tool("grep", pattern="canary", path="sl/mesh"),
                tool("glob", pattern="sl/**/*"),
            ),
        ),
        leaked("mesh", "backup", "scratch", "skill"),
        held_bare=ITSELF,
    ),
    Case(
        "search-race",
        "read",
        "swap a folder for a link to the backups while grep walks through it",
        (
            race(
                *("race3", "@DATA@/backups"),
                (tool("grep", pattern=f"canary-backup|untouched|{n}$", path="race3/f") for n in range(4)),
                "agent-1.txt",
            ),
        ),
        leaked("backup"),
        attempted=RACED,
        held_bare="a race that is won or lost by chance",
    ),
    Case(
        "search-with-an-option",
        "read",
        "hand the program behind grep an option in place of a pattern",
        (
            (
                tool("grep", pattern="--file=/run/secrets/mesh"),
                tool("grep", pattern="-f/run/secrets/mesh"),
                tool("grep", pattern="canary", include="--pre=cat"),
                tool("glob", pattern="--files/../../*"),
            ),
        ),
        leaked("mesh", "inherited"),
        attempted=TOOLED,
        held_bare="patterns stand behind an option of their own",
    ),
    Case(
        "write-race",
        "write",
        "swap a file for a link between the write tool's check and its use",
        (
            race(
                *("race4", "/etc/target"),
                (tool("write", path="race4/f", content=f"written {n}\n") for n in range(RACE)),
            ),
        ),
        changed("/etc/target"),
        attempted=RACED,
        held_bare="the file tools open without following links",
    ),
    Case(
        "write-race-of-folders",
        "write",
        "swap a folder for a link to /srv while the write tool walks through it",
        (
            race(
                *("race5", "/srv"),
                (tool("write", path="race5/f/target", content=f"written {n}\n") for n in range(RACE)),
                "target",
            ),
        ),
        changed("/srv/target"),
        attempted=RACED,
        held_bare="the file tools open without following links",
    ),
    Case(
        "edit-race",
        "write",
        "swap a file for a link between the edit tool's look and its change",
        (
            race(
                *("race6", "/etc/target"),
                (
                    tool("edit", path="race6/f", old_string="untouched", new_string=f"untouched edited{n}")
                    for n in range(RACE)
                ),
            ),
        ),
        changed("/etc/target"),
        attempted=RACED,
        held_bare="the file tools open without following links",
    ),
    Case(
        "instructions-that-are-a-link",
        "read",
        "make AGENTS.md and its like links to secrets, then have a new session begin",
        (
            (
                bash(
                    """
                    rm -f *.md; for f in AGENTS USER MEMORY; do ln -sf /run/secrets/mesh $f.md; done
                    ln -sf /proc/self/environ SOUL.md
                    """
                ),
            ),
        ),
        lambda scene: prompted("mesh")(scene) or prompted("token")(scene),
        held_bare="instructions are read without following links",
        apart="quiet",
        afterwards="session",
    ),
    Case(
        "instructions-that-never-end",
        "exhaust",
        "make AGENTS.md a pipe that nobody writes to, and let read open another",
        (
            (bash("rm -f *.md pipe; mkfifo pipe AGENTS.md"),),
            (tool("read", path="pipe"), tool("grep", pattern="x", path=".")),
        ),
        took_longer(8),
        held_bare="pipes are not opened, or not waited for",
        apart="quiet",
        afterwards="session",
    ),
)
