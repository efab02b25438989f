"""How both servers run uvicorn: bounded connections, and a garbage collector that does not stop requests."""

from .gc_tuning import tune_interpreter
from .header_limits import BoundedHttp, abort_connection, claim_connection, limited_http_protocol

__all__ = ["BoundedHttp", "abort_connection", "claim_connection", "limited_http_protocol", "tune_interpreter"]
