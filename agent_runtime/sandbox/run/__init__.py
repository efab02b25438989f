"""Run a confined process: output capture, resource limits, quotas, its proxy."""
