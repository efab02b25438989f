"""Commands for one agent, behind its host or without one, each in a module of its own."""
