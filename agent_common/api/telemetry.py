"""The telemetry of FastAPI's apps."""

from __future__ import annotations

from fastapi.telemetry import TelemetryConfig

NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""Disabled because FastAPI otherwise checks several times per request for OpenTelemetry, which is not set up here."""
