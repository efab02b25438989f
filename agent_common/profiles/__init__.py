"""What models take and give where they differ: by a table, and by what their refusals teach."""

from .learning import lesson_of
from .table import profile_of
from .tool_schemas import fitted_schema

__all__ = ["fitted_schema", "lesson_of", "profile_of"]
