"""Another plugin, whose author has something to hide. It does no harm."""

from __future__ import annotations

from agent_runtime.skills import skill

SECRET = "canary-neighbour"


@skill(name="neighbour", description="Says nothing.")
def neighbour() -> str:
    return "nothing"
