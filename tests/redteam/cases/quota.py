"""Room on the disk beyond what a session and the workspace are given."""

from __future__ import annotations

from agent_testing import Call

from ..case import Apart, Case, Criterion, bash, python, skill, tool
from ..criteria import holds_files, holds_more, printed

Steps = tuple[tuple[Call, ...], ...]
SCRATCH_MB, WORKSPACE_MB, FILES = 20, 30, 25_000
OVERRUN_MB, OVERRUN_FILES = 300, 50_000
"""How much too far a fast writer gets before a watched quota ends it."""
SCRATCH_FULL = holds_more("@DATA@/scratch", SCRATCH_MB + OVERRUN_MB)
WORKSPACE_FULL = holds_more("@DATA@/workspace", WORKSPACE_MB + OVERRUN_MB)


def quota(
    *named: str,
    steps: Steps,
    breach: Criterion,
    workspace_mb: int = WORKSPACE_MB,
    on_disk: bool = False,
    apart: Apart = "room",
) -> Case:
    """A case by its name and what it tries, on a server with little room."""
    name, tries = named
    return Case(
        name,
        "exhaust",
        tries,
        steps,
        breach,
        attempted=r"type: |ended|holds",
        held_bare="quotas are watched without confinement, too",
        apart=apart,
        settings={"AGENT_SCRATCH_MB": str(SCRATCH_MB), "AGENT_WORKSPACE_MB": str(workspace_mb)},
        on_disk=on_disk,
    )


CASES = (
    quota(
        "scratch-by-writing",
        "write far more into the scratch than it may hold",
        steps=((bash("for n in {1..4}; do head -c 100M /dev/zero > $SCRATCH/$n; done"),),),
        breach=SCRATCH_FULL,
    ),
    quota(
        "scratch-by-reserving",
        "reserve room in the scratch without writing",
        steps=(
            (
                python(f"""
                    folder = os.open(os.environ["SCRATCH"], 0)
                    for number in range(100):
                        file = os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=folder)
                        os.posix_fallocate(file, 0, {SCRATCH_MB - 5} << 20)
                """),
            ),
        ),
        breach=SCRATCH_FULL,
        on_disk=True,
        apart="own",
    ),
    quota(
        "scratch-by-reserving-otherwise",
        "reserve room in the scratch by ioctl",
        steps=(
            (
                python(f"""
                    folder = os.open(os.environ["SCRATCH"], 0)
                    for number in range(27):
                        file = os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=folder)
                        call(16, file, 0x4030582A, struct.pack("=4Q16x", 0, 0, {SCRATCH_MB - 5} << 20, 0))
                """),
            ),
        ),
        breach=SCRATCH_FULL,
        on_disk=True,
        apart="own",
    ),
    quota(
        "scratch-by-attributes",
        "have a file grow in large steps, by the system call for its attributes",
        steps=(
            (
                python("""
                    folder = os.open(os.environ["SCRATCH"], 0)
                    os.close(os.open("grows", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
                    wish = struct.pack("=Q4I", 0x800, 16 << 20, 0, 0, 0)  # FS_XFLAG_EXTSIZE
                    print("file_setattr", call(469, folder, b"grows", wish, len(wish), 0))
                """),
            ),
        ),
        breach=printed(r"file_setattr 0"),
        on_disk=True,
        apart="own",
    ),
    quota(
        "scratch-by-deleting",
        "keep files open that are deleted: they take room in no folder",
        steps=(
            (
                python("""
                    kept, piece = 0, bytes(1 << 20)
                    for number in range(90):
                        file = os.open("kept", os.O_CREAT | os.O_WRONLY)
                        os.unlink("kept")
                        for _ in range(18):
                            kept += os.write(file, piece) >> 20
                        print("keeps", kept, "MiB", flush=True)
                        time.sleep(0.04)
                """),
            ),
        ),
        breach=printed(r"keeps 1\d\d\d MiB"),
        on_disk=True,
        apart="own",
    ),
    quota(
        "scratch-by-unpacking",
        "unpack a bomb: one megabyte that becomes hundreds",
        steps=((bash("cd $SCRATCH; head -c 100M /dev/zero | gzip -1 > b; cat b b b b > bomb.gz; gunzip bomb.gz"),),),
        breach=SCRATCH_FULL,
    ),
    quota(
        "scratch-by-many-files",
        "make more files in the scratch than a file system of its size has room for",
        steps=(
            (
                python("""
                    folder = os.open(os.environ["SCRATCH"], 0)
                    for number in range(120000):
                        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=folder))
                """),
            ),
        ),
        breach=holds_files("@DATA@/scratch", FILES + OVERRUN_FILES),
    ),
    quota(
        "scratch-by-small-steps",
        "fill the scratch with many commands, each of which takes little",
        steps=tuple((bash(f"head -c 30M /dev/zero > $SCRATCH/{n}"),) for n in range(12)),
        breach=SCRATCH_FULL,
    ),
    quota(
        "scratch-in-exchange-for-workspace",
        "fill the scratch while as much is deleted elsewhere, so that no room seems to be gone",
        steps=(
            (bash("for n in {1..45}; do head -c 9M /dev/zero > room-$n; done"),),
            (bash("for n in {1..45}; do rm room-$n; head -c 9M /dev/zero > $SCRATCH/$n; done"),),
        ),
        breach=SCRATCH_FULL,
        workspace_mb=1000,
        apart="alone",
    ),
    quota(
        "workspace-by-writing",
        "write far more into the workspace than it may hold",
        steps=((bash("for n in {1..4}; do head -c 100M /dev/zero > $WORKSPACE/$n; done"),),),
        breach=WORKSPACE_FULL,
    ),
    quota(
        "workspace-by-skill",
        "write far more into the workspace than it may hold, as a skill",
        steps=(
            (
                skill("""
                    for number in range(4):
                        with open(f"@WORKSPACE@/{number}", "wb") as file:
                            for _ in range(100):
                                file.write(bytes(1 << 20))
                """),
            ),
        ),
        breach=WORKSPACE_FULL,
    ),
    quota(
        "workspace-by-tool",
        "have the server write what a command has no room for",
        steps=(
            (bash(f"head -c {WORKSPACE_MB - 1}M /dev/zero > nearly"),),
            tuple(tool("write", path=f"more-{n}", content="x" * 1_500_000) for n in range(3)),
        ),
        breach=holds_more("@DATA@/workspace", WORKSPACE_MB + 2),
    ),
)
