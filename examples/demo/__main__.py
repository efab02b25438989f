"""`make demo`: starts a mesh and one runtime, hands a task to the mesh, which sends it to the agent over the mediation
channel, and stops everything again.

Progress goes to stderr. A person sees the report at the end; where stdout is no terminal, its last two lines are the
place of the report and the TaskResult as JSON.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType, TracebackType

from rich.console import Console
from rich.markdown import Markdown

from agent_client import ClientError
from agent_common.protocol import TaskAssignment, TaskResult, TokenBudget

from .mesh import DemoError, running_agent, running_mesh
from .task import carry_out
from .view import StepView

EXAMPLES = Path(__file__).parents[1]
DEFAULT_FOLDER = EXAMPLES.parent / ".demo"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CHAT = ".venv/bin/agent up"

PROVIDERS = {
    "openai": "the one that OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL name",
    "local": "SmolLM2, a real one, so small that it seldom gets a report done",
    "demo": "a script in its place, which calls real tools and needs no key",
}

INSTRUCTIONS = """\
Read brief.md in your workspace and do what it asks. Work out the numbers with code that reads sales.csv, write
report.md into your workspace and read it once more before you finish."""
ANSWER = """\
Your final answer is one JSON object and nothing else:
{"result": {"report": "report.md", "orders": <number of orders>, "total": <total amount>,
"top_product": "<its name>"}, "promote": {"sales/top_product": "<its name>"}}"""


def choose_provider() -> str:
    """A key or an endpoint in the environment means the real model, then comes MODEL, then the scripted one."""
    if os.environ.get("OPENAI_API_KEY") or os.environ.get("OPENAI_BASE_URL"):
        return "openai"
    model = os.environ.get("MODEL") or "demo"
    if model not in ("demo", "local"):
        raise DemoError(f"MODEL is `local` or `demo`, not {model!r}; others need OPENAI_API_KEY or OPENAI_BASE_URL")
    return model


def assignment() -> TaskAssignment:
    return TaskAssignment(
        workflow_id="demo",
        step_id="report",
        task_type="sales_report",
        input_data={
            "instructions": INSTRUCTIONS,
            "answer": ANSWER,
            "files": ["brief.md", "sales.csv"],
            "output": "report.md",
        },
        timeout=600,
        token_budget=TokenBudget(max_tokens=500_000),
    )


def empty_folder(folder: Path) -> Path:
    """An empty folder, ours until we end. Only the demo's own is emptied; one that the user named must be empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        leftovers = list(folder.iterdir())
        if leftovers and folder != DEFAULT_FOLDER:
            raise DemoError(f"{folder} is not empty")
        for path in leftovers:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    except BlockingIOError:
        raise DemoError(f"another demo runs in {folder}") from None
    except OSError as error:
        raise DemoError(f"cannot use {folder}: {error}") from error
    return folder


def run(files: Path, folder: Path, console: Console) -> bool:
    name = choose_provider()
    console.print(f"Model: {PROVIDERS[name]}", highlight=False)
    with (
        console.status("Starting the mesh and the agent") as status,
        running_mesh(empty_folder(folder), name) as mesh,
        running_agent(mesh) as (agent, workspace),
    ):
        for file in filter(Path.is_file, files.rglob("*")):
            agent.files.write(file.relative_to(files).as_posix(), file.read_bytes())
        result = carry_out(mesh, agent, assignment(), console, StepView(console, status))
        status.update("Stopping what was started")

    for made in sorted((workspace.parent / "skills").glob("*.py")):
        console.print(f"It keeps the tool that it made: {made}", markup=False, highlight=False, soft_wrap=True)
    report = workspace / "report.md"
    done = result.status == "complete" and report.is_file()
    if not done:
        why = result.error or (result.result or {}).get("error") or "The agent wrote no report."
        console.print(str(why), style="red", markup=False, soft_wrap=True)
    console.print(f"Chat with an agent in this folder: {CHAT}", markup=False, highlight=False, soft_wrap=True)
    print_result(report, result)
    return done


def print_result(report: Path, result: TaskResult) -> None:
    """Show a person the report, and a program where it is and what the task came to."""
    if not sys.stdout.isatty():
        print(f"report: {report}")
        print(result.model_dump_json())
        return
    if report.is_file():
        console = Console()
        console.print()
        console.print(Markdown(report.read_text("utf-8", errors="replace")))
        console.print()
    print(f"report: {report}")


class ExitOnSignal:
    """The first signal ends the demo by an exception, so that everything it started is stopped on the way out,
    undisturbed by another one. Whatever happens there, the exit code is the signal's."""

    def __init__(self) -> None:
        self._number: int | None = None

    def __enter__(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._end)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._number is not None:
            raise SystemExit(128 + self._number) from error

    def _end(self, number: int, _frame: FrameType | None) -> None:
        for every in SIGNALS:
            signal.signal(every, signal.SIG_IGN)
        self._number = number
        raise SystemExit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--files", type=Path, default=EXAMPLES / "sales", help="folder with the brief and its data")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where everything that comes to be lies")
    options = parser.parse_args()
    # A proxy for the outside must not be asked for our own loopback ports.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(filter(None, [os.environ.get("no_proxy"), "127.0.0.1"]))
    console = Console(stderr=True)
    with ExitOnSignal():
        try:
            sys.exit(0 if run(options.files, options.folder.absolute(), console) else 1)
        except (DemoError, ClientError) as error:
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
