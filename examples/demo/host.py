"""`python -m examples.demo.host up`: `agent-host` whose demo model can also write the report of examples/sales."""

from __future__ import annotations

from agent_host.cli import main
from agent_host.proxy import add_demo_script

from .model import play

if __name__ == "__main__":
    add_demo_script(play, "write the report of the example in examples/sales")
    main()
