"""`python -m agent_host`."""

from .cli import main

main()
