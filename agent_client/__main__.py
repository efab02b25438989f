"""`python -m agent_client` is the command `agent`."""

from .cli import main

main()
