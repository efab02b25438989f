"""Commands for what the agents of a team share, each in a module of its own."""
