"""What all sessions of a listener share."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.clock import Clock

from ..audit.audit_log import AuditLog
from ..channels.workspace_channels import WorkspaceChannels
from ..dispatch.wiring import Dispatch
from ..limits import ListenerLimits
from ..metrics import Metrics
from ..timers import Timers
from .parsing import FrameParser


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionServices:
    """The services that connections use. Thousands of connections share one object, so each holds only a reference."""

    dispatch: Dispatch
    channels: WorkspaceChannels
    parser: FrameParser
    audit_log: AuditLog
    metrics: Metrics
    timers: Timers
    clock: Clock
    limits: ListenerLimits
