"""What the pieces of a listener share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_common.clock import Clock

from .audit.audit_log import AuditLog
from .channels.workspace_channels import WorkspaceChannels
from .ledger.ledger import WorkLedger
from .ledger.ledger_writer import LedgerWriter
from .limits import ListenerLimits
from .metrics import Metrics
from .timers import Timers

if TYPE_CHECKING:
    from .dispatch.dispatcher import Dispatcher

Draw = Callable[[float, float], float]
"""A number between two, at random."""


def _always(_workspace: str) -> bool:
    return True


def _nothing(_workspace: str) -> None:
    return


@dataclass(slots=True)
class Parts:
    clock: Clock
    limits: ListenerLimits
    timers: Timers
    ledger_writer: LedgerWriter
    metrics: Metrics
    audit_log: AuditLog
    ledger: WorkLedger
    channels: WorkspaceChannels
    draw: Draw
    dispatcher: Dispatcher = field(init=False)
    detached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever an agent is gone."""
    is_running: Callable[[str], bool] = _always
    """Whether the workspace runs, as far as somebody knows."""
    on_halt: Callable[[str], None] = _nothing
    """Told of a workspace that must be stopped."""
