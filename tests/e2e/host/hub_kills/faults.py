"""What a storm of kills may have lost, repeated or put out of order."""

from __future__ import annotations

import time

from .world import HubKillWorld, asked_for


def faults_of(world: HubKillWorld) -> list[str]:
    """What is lost, repeated or out of order."""
    faults: list[str] = []
    answered_at: dict[str, float] = {}
    for speaker in world.speakers:
        session_id, *acknowledged = speaker.acknowledged()
        log = world.log(session_id)
        if [one["sequence"] for one in log] != list(range(1, len(log) + 1)):
            faults.append(f"{speaker.name}: the sequence has gaps")
        ids = [one["envelope_id"] for one in log]
        if ids != sorted(set(ids)):
            faults.append(f"{speaker.name}: ids are repeated, or not in order")
        texts = [one for one in log if one["event_data"].get("text")]
        said = [one for one in texts if one["causation_id"] is None]
        if [one["envelope_id"] for one in said] != acknowledged:
            faults.append(
                f"{speaker.name}: {len(acknowledged)} acknowledged, {len(said)} in the log, or in another order"
            )
        expected = [(one["envelope_id"], f"answer to {speaker.name}-{n}") for n, one in enumerate(said)]
        answers = [one for one in texts if one["causation_id"] is not None]
        if [(one["causation_id"], one["event_data"]["text"]) for one in answers] != expected:
            faults.append(f"{speaker.name}: {len(said)} said, {len(answers)} answers, or in another order")
        for number, one in enumerate(answers):
            answered_at[f"{speaker.name}-{number}"] = one["created_at"] / 1000
    offset = time.time() - time.monotonic()
    for request in world.asked():
        text = asked_for(request)
        if request.received_at + offset > answered_at.get(text, 0.0):
            faults.append(f"the model was asked for {text} when it was answered")
    dead = world.hosts[0].operator.get("/hub/dead-letters").json()["dead_letters"]
    return [*faults, *(f"dead letter: {one}" for one in dead)]
