"""`python -m agent_testing`: the scripted provider as a process. Prints its base URL on a line of its own.

`python -m agent_testing bridge` is the fake bridge; see its --help.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path

import uvloop

from .provider import ProviderServer, Script


def main() -> None:
    if sys.argv[1:2] == ["bridge"]:
        from .bridge import bridge_command

        bridge_command(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m agent_testing", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 is any free one")
    parser.add_argument("--script", type=Path, help="JSON file of steps; without it the user's message directs")
    parser.add_argument("--model", action="append", help="name that /v1/models lists; may be repeated")
    options = parser.parse_args()
    script = Script()
    if options.script:
        script.load(json.loads(options.script.read_text("utf-8")))
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(ProviderServer(script, options.model or ("default",)), options.port))


async def _serve(server: ProviderServer, port: int) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    sys.stdout.write(await server.start(port) + "\n")
    sys.stdout.flush()
    await stopping.wait()
    await server.stop()


if __name__ == "__main__":
    main()
