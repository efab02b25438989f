"""`python -m examples.story.host up`: `agent-host` whose demo model can also play the researcher and the writer."""

from __future__ import annotations

from agent_host.cli import main
from agent_host.proxy import add_demo_script

from .model import play

if __name__ == "__main__":
    add_demo_script(play, "be one of the two agents of examples/story")
    main()
