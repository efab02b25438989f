"""The catalog of tools that a turn offers to the model."""
