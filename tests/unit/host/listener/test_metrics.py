"""What the listener counts, as Prometheus reads it."""

from __future__ import annotations

from agent_host.listener.metrics import Metrics


def test_frames_are_counted_with_their_bytes() -> None:
    metrics = Metrics()
    for size in (10, 5):
        metrics.count_frame("in", size)
    metrics.count_frame("out", 7)
    metrics.count("dead", "expired", by=2)
    assert [metrics.total(name) for name in ("frames_in", "bytes_in", "frames_out", "bytes_out")] == [2, 15, 1, 7]
    lines = metrics.render({}).splitlines()
    for line in ("frames_in_total 2", "bytes_in_total 15", "frames_out_total 1", "bytes_out_total 7", "probes_total 0"):
        assert f"mesh_listener_{line}" in lines
    assert 'mesh_listener_dead_total{kind="expired"} 2' in lines
