"""`python -m agent_testing bridge`: a fake bridge as a process. Prints its address on a line of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import signal
from collections.abc import Sequence

from .bridge import CAPACITY, FakeBridge
from .schedule import BridgeFaults


def main(argv: Sequence[str]) -> None:
    """Run until SIGTERM or SIGINT, then print the counts. Exits with 2 for options that are wrong."""
    parser = argparse.ArgumentParser(prog="python -m agent_testing bridge", description=__doc__)
    parser.add_argument("--listen", required=True, help="where the guest dials: unix:/path, tcp://host:port")
    parser.add_argument("--target", required=True, help="what is dialled for it, the host's listener")
    parser.add_argument("--capacity", type=int, default=CAPACITY, help="connections at once (default %(default)s)")
    for field in dataclasses.fields(BridgeFaults):
        default: float = getattr(BridgeFaults(), field.name)
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, type=type(default), default=default, help="(default %(default)s)")
    options = vars(parser.parse_args(argv))
    bridge = {name: options.pop(name) for name in ("listen", "target", "capacity")}
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(FakeBridge(**bridge, faults=BridgeFaults(**options))))
    except (OSError, ValueError) as error:
        parser.error(str(error))


async def _serve(bridge: FakeBridge) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with bridge:
        print(bridge.url, flush=True)
        await stopping.wait()
    print(json.dumps({"counts": dataclasses.asdict(bridge.counts)}), flush=True)
