"""The guest: one agent, one loop, one FastAPI server inside one microVM."""

__version__ = "0.1.0"
