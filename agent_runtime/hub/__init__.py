"""This agent on the hub of its host: it is registered there, and what other agents say to it becomes turns.

It is loaded only with `AGENT_HUB`.
"""

from .access import HubActions
from .member import HubMember, hub_card
from .origins import Origins
from .turns import HUB_WORK, HubTurns

__all__ = ["HUB_WORK", "HubActions", "HubMember", "HubTurns", "Origins", "hub_card"]
