"""Three live runtimes hold a discussion and a workflow, watched by `agent hub tail`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .hub_story import HubStory
from .hub_world import HubWorld

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubStory]:
    world = HubWorld(tmp_path_factory.mktemp("three"), ("ann", "bob", "eve"))
    ann, *others = world.runtimes.values()
    yield HubStory(world.host, ann, {one.env["AGENT_ID"]: one.provider for one in others})
    world.close()


def test_a_discussion_goes_round(story: HubStory) -> None:
    story.discuss()


def test_a_workflow_is_handed_over(story: HubStory) -> None:
    story.hand_over()
