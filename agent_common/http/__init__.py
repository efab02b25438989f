"""How both servers run uvicorn: bounded connections, and a garbage collector that does not stop requests."""

from .gc_tuning import tune_interpreter
from .header_limits import BoundedHttp, authorised, bounded_http

__all__ = ["BoundedHttp", "authorised", "bounded_http", "tune_interpreter"]
