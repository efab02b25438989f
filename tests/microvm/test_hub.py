"""A microVM and two processes hold a discussion and a workflow over the hub, watched by `agent hub tail`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agent_testing import ScriptedProvider
from tests.e2e.host.hub_story import HubStory
from tests.e2e.host.hub_world import HubRuntime

from .house import House, eventually
from .machine import PATIENCE

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def story(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubStory]:
    """The machine takes the first turn after ann's. It goes on when this is over, for the tests that follow."""
    house.stop()
    joins = house.operator.patch(f"/workspaces/{house.name}", json={"settings": {"AGENT_HUB": True}})
    assert joins.status_code == 200, joins.text
    house.start()
    folder = tmp_path_factory.mktemp("three")
    with ExitStack() as stack:
        ann, eve = (
            stack.enter_context(HubRuntime(stack.enter_context(ScriptedProvider()), house.host, folder / name, name))
            for name in ("ann", "eve")
        )
        for one in (ann, eve):
            one.wait_joined()
        eventually(lambda: house.name in connected(house), "the guest has joined the hub")
        house.provider.clear()
        yield HubStory(house.host, ann, {house.name: house.provider, "eve": eve.provider}, PATIENCE)


def connected(house: House) -> set[str]:
    """The agents that have a link to the hub."""
    agents = house.operator.get("/hub/agents").json()["agents"]
    return {one["passport"]["name"] for one in agents if one["connected"]}


def test_a_discussion_goes_round(story: HubStory) -> None:
    story.discuss()


def test_a_workflow_is_handed_over(story: HubStory) -> None:
    story.hand_over()
