"""What models take and give where they differ: by a table, and by what their refusals teach."""

from .learning import lesson_of
from .refusals import accepted_messages, accepted_tools
from .table import profile_of
from .tool_schemas import fitted_schema, with_plain_names

__all__ = ["accepted_messages", "accepted_tools", "fitted_schema", "lesson_of", "profile_of", "with_plain_names"]
