"""The mediation channel: a host and its guests, in processes of their own, beside a bare echo."""

from .measured import idle_agents, reconnects, round_trips

__all__ = ["idle_agents", "reconnects", "round_trips"]
