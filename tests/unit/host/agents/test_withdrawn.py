"""What is remembered of cancelled messages, when one asker cancels without end."""

from __future__ import annotations

from agent_host.agents.withdrawn import MOST_WITHDRAWN, WithdrawnMessages


def test_an_asker_that_cancels_without_end_has_only_its_own_forgotten() -> None:
    withdrawn = WithdrawnMessages()
    others = [(f"asker-{number}", f"late-{number}") for number in range(3)]
    for asker, request in others:
        withdrawn.add(asker, "bob", request)
    for number in range(2 * MOST_WITHDRAWN):
        withdrawn.add("flood", "bob", f"flood-{number}")
    assert all(withdrawn.has(asker, "bob", request) for asker, request in others)
    assert not withdrawn.has("flood", "bob", "flood-0")
    assert withdrawn.has("flood", "bob", f"flood-{2 * MOST_WITHDRAWN - 1}"), "the newest stay"
    assert len(withdrawn) == MOST_WITHDRAWN


def test_a_message_is_withdrawn_from_one_agent_and_by_its_asker_alone() -> None:
    withdrawn = WithdrawnMessages()
    for _ in range(2):
        withdrawn.add("ann", "bob", "one")
    assert not withdrawn.has("ann", "cat", "one")
    assert not withdrawn.has("max", "bob", "one")
    for _ in range(2):
        withdrawn.remove("ann", "bob", "one")
        assert not withdrawn.has("ann", "bob", "one")
    assert len(withdrawn) == 0
