"""The state of the agent as Prometheus reads it. Imported when it is first asked for, because that takes a while."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from agent_common.protocol import AgentStatus

CONTENT_TYPE = CONTENT_TYPE_LATEST


def render_metrics(status: AgentStatus, *, ready: bool) -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(status, ready=ready))
    return generate_latest(registry)


class _StatusCollector(Collector):
    def __init__(self, status: AgentStatus, *, ready: bool) -> None:
        self._status = status
        self._ready = ready

    def collect(self) -> Iterable[Metric]:
        status = self._status
        about = {"agent_id": status.agent_id, "version": status.version, "confinement": status.confinement}
        yield InfoMetricFamily("agent", "The agent.", about)
        yield GaugeMetricFamily("agent_ready", "1 if it takes work, else 0.", float(self._ready))
        yield GaugeMetricFamily("agent_uptime_seconds", "Seconds since it started.", status.uptime_seconds)
        sessions = GaugeMetricFamily("agent_sessions", "Sessions with a turn, by its state.", labels=["state"])
        for state, count in status.sessions.model_dump().items():
            sessions.add_metric([state], count)
        yield sessions
        yield GaugeMetricFamily("agent_queue_limit", "Messages that may wait at once.", status.queue_limit)
        yield CounterMetricFamily("agent_steps", "Model calls that were completed.", status.iterations_since_boot)
        tasks = CounterMetricFamily("agent_tasks", "Tasks that have ended, by outcome.", labels=["outcome"])
        tasks.add_metric(["completed"], status.tasks_completed)
        tasks.add_metric(["failed"], status.tasks_failed)
        yield tasks
        model = [status.model]
        tokens = GaugeMetricFamily("agent_context_tokens", "Tokens of the latest model call.", labels=["model"])
        tokens.add_metric(model, status.context_tokens)
        yield tokens
        limit = GaugeMetricFamily("agent_context_limit_tokens", "Size of the model's window.", labels=["model"])
        limit.add_metric(model, status.context_max)
        yield limit
        mesh = {"reachable": 1.0, "unknown": float("nan")}.get(status.mesh, 0.0)
        yield GaugeMetricFamily("agent_mesh_reachable", "1 if the latest model call reached the mesh, else 0.", mesh)
        if status.channel != "off":
            up = float(status.channel == "ready")
            yield GaugeMetricFamily("agent_channel_ready", "1 if the channel to the host is up, else 0.", up)
