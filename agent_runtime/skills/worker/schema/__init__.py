"""From a function's hints and docstring to the JSON Schema of its arguments, and from JSON back to what the hints say.

The standard library only: docs/reference/skills.md has what pydantic and griffe would cost.
"""
