"""`python -m agent_testing bridge`: a fake bridge as a process. Prints its address on a line of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import signal
from collections.abc import Sequence
from typing import Any

from .bridge import CAPACITY
from .commands import HELP, run_commands
from .fake import FakeBridge
from .faults import BridgeFaults
from .readiness import BridgeChannel


def main(argv: Sequence[str]) -> None:
    """Runs until SIGTERM or SIGINT, then prints the counts. Exits with 2 for options that are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m agent_testing bridge",
        description=__doc__,
        epilog=f"While it runs it takes commands on standard input: {HELP}.",
    )
    parser.add_argument(
        "--listen", required=True, help="where the guest dials: unix:/path, tcp://host:port, vsock://cid:port"
    )
    parser.add_argument("--target", required=True, help="what is dialled for it, the host's listener")
    parser.add_argument("--capacity", type=int, default=CAPACITY, help="connections at once (default %(default)s)")
    parser.add_argument("--optional", action="store_true", help="the channel is not declared as required")
    for field in dataclasses.fields(BridgeFaults):
        default: float = getattr(BridgeFaults(), field.name)
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, type=type(default), default=default, help="(default %(default)s)")
    options = vars(parser.parse_args(argv))
    try:
        faults = BridgeFaults(**{field.name: options[field.name] for field in dataclasses.fields(BridgeFaults)})
        channel = BridgeChannel(required=not options["optional"])
        bridge = FakeBridge(
            options["listen"], options["target"], faults=faults, channel=channel, capacity=options["capacity"]
        )
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(bridge))
    except (OSError, ValueError) as error:
        parser.error(str(error))


async def _serve(bridge: FakeBridge) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with bridge:
        print(bridge.url, flush=True)
        commands = asyncio.create_task(run_commands(bridge, _print_json))
        try:
            await stopping.wait()
        finally:
            commands.cancel()
            await asyncio.wait({commands})
    _print_json({"counts": dataclasses.asdict(bridge.counts)})


def _print_json(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)
