"""The two agents of `make story`: what they leave at the host, who made it, and that the page shows what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from agent_client.sync import SyncMesh
from agent_common.protocol import Cause
from examples.demo.mesh import running_mesh
from examples.story.__main__ import SOURCES, tell
from examples.story.messages import ARTICLE, DATA, DONE, FINDINGS, RESEARCHER, SOURCE, TEAM, TOPIC, WRITER

from ..transcript import exchanges

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "two-agents.md"
FOUND = {"best_meadow": "lavender", "kg_by_meadow": {"clover": 25.5, "lavender": 38.5, "maize": 2.5}}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SyncMesh, str]]:
    """The host after the story, and what was printed."""
    printed = StringIO()
    with ExitStack() as stack:
        mesh = stack.enter_context(running_mesh(tmp_path_factory.mktemp("story"), "demo", "examples.story.host"))
        assert tell(mesh, stack, Console(file=printed, width=80)), printed.getvalue()
        yield mesh, printed.getvalue()


def test_the_board_the_artifacts_and_the_topic_have_what_the_two_made(told: tuple[SyncMesh, str]) -> None:
    mesh, _ = told
    team = mesh.team(TEAM)
    history = list(team.blackboard.history(FINDINGS))
    assert [(one.version, one.value, one.updated_by) for one in history] == [
        (2, FOUND, RESEARCHER),
        (1, {"state": "in work"}, RESEARCHER),
    ]
    assert [(one.name, one.version, one.updated_by) for one in team.artifacts.list()] == [
        (ARTICLE, 1, WRITER),
        (DATA, 1, RESEARCHER),
    ]
    assert team.artifacts.read(DATA) == (SOURCES / SOURCE).read_bytes()
    article = team.artifacts.read(ARTICLE).decode()
    assert "lavender: 38.5 kg" in article
    assert "Cleo, on lavender: 39.0 kg" in article, "what the researcher has answered"
    (message,) = team.topics.read(TOPIC)
    assert (message.id, message.data, message.by) == (DONE, {"article": ARTICLE, "version": 1}, WRITER)


def test_each_thing_leads_back_to_its_task_and_session(told: tuple[SyncMesh, str]) -> None:
    mesh, _ = told
    team = mesh.team(TEAM)
    research, asked = sorted(mesh.work.list(workspace=RESEARCHER), key=lambda work: work.submitted_at)
    (writing,) = mesh.work.list(workspace=WRITER)
    assert [work.status for work in (research, asked, writing)] == ["resulted"] * 3

    def check(cause: Cause, agent: str, work: str) -> None:
        assert cause.task == work
        assert cause.session == mesh.agent(agent).task(work).record().session_id

    for change in team.blackboard.history(FINDINGS):
        check(change.cause, RESEARCHER, research.request_id)
    made = {one.name: one.cause for one in team.artifacts.list()}
    check(made[DATA], RESEARCHER, research.request_id)
    check(made[ARTICLE], WRITER, writing.request_id)
    (message,) = team.topics.read(TOPIC)
    check(message.cause, WRITER, writing.request_id)


def test_the_page_shows_what_is_printed(told: tuple[SyncMesh, str]) -> None:
    _, printed = told
    (shown,) = exchanges(PAGE.read_text("utf-8"))
    lines = [
        line.rstrip()
        for line in ["Model: a script in its place, which calls real tools and needs no key", *printed.splitlines()]
    ]
    assert shown.fits("\n".join(lines)), shown.first_fault("\n".join(lines))
