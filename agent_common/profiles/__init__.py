"""What models take and give where they differ: by a table, and by what their refusals teach."""

from .learning import lesson_of
from .table import profile_of

__all__ = ["lesson_of", "profile_of"]
