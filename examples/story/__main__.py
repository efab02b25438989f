"""`make story`: a host, a researcher and a writer; what they do, what they leave behind, and the article.

A model of your own plays them with OPENAI_API_KEY or OPENAI_BASE_URL, as it does in `make demo`.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from agent_client import ClientError, NotFound
from agent_client.sync import SyncMesh
from examples.demo.__main__ import DEFAULT_FOLDER, PROVIDERS, ExitOnSignal, choose_provider, empty_folder
from examples.demo.mesh import DemoError, running_agent, running_mesh

from .messages import ARTICLE, RESEARCHER, RESEARCHER_TASK, SOURCE, TEAM, TOPIC, WRITER
from .view import StoryView, show_what_is_left

SOURCES = Path(__file__).with_name("sources")
SECONDS = 600


def run(folder: Path, console: Console) -> bool:
    name = choose_provider()
    console.print(f"Model: {PROVIDERS[name]}", highlight=False)
    with ExitStack() as stack:
        mesh = stack.enter_context(running_mesh(empty_folder(folder), name, "examples.story.host"))
        return tell(mesh, stack, console)


def tell(mesh: SyncMesh, stack: ExitStack, console: Console) -> bool:
    """Have the two agents do their work, and show it. Whether there is an article at the end."""
    for name in (RESEARCHER, WRITER):
        agent, _ = stack.enter_context(running_agent(mesh, name, team=TEAM))
        if name == RESEARCHER:
            agent.files.write(SOURCE, (SOURCES / SOURCE).read_bytes())
    view = StoryView(console)
    task = {"objective": RESEARCHER_TASK, "task_type": "research", "timeout": SECONDS}
    work: str | None = mesh.work.submit(RESEARCHER, task)
    agent_id = RESEARCHER
    while work is not None:
        wait_until_accepted(mesh, work)
        with mesh.agent(agent_id).task(work).events() as events:
            view.show(agent_id, events)
        work = view.handed_off
        agent_id = WRITER
    show_what_is_left(console, mesh, TEAM, TOPIC)
    try:
        article = mesh.team(TEAM).artifacts.read(ARTICLE)
    except NotFound:
        console.print(f"There is no artifact {ARTICLE}: they did not get there.", style="red", markup=False)
        return False
    console.print()
    console.print(Markdown(article.decode(errors="replace")))
    return True


def wait_until_accepted(mesh: SyncMesh, work: str) -> None:
    """Wait until the agent has the work on its disk, or until it has ended without that."""
    with closing(mesh.work.follow(work)) as changes:
        for change in changes:
            if change.type == "result" or change.data.get("status") == "accepted":
                return


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.story", description=__doc__)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where everything that comes to be lies")
    options = parser.parse_args()
    # A proxy for the outside must not be asked for our own loopback ports.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(filter(None, [os.environ.get("no_proxy"), "127.0.0.1"]))
    console = Console()
    with ExitOnSignal():
        try:
            sys.exit(0 if run(options.folder.absolute(), console) else 1)
        except (DemoError, ClientError) as error:
            console.print(str(error), style="red", markup=False, soft_wrap=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
