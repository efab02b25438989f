"""Stands in for a runtime: answers `/readyz`, tells what it was given, and misbehaves when told to.

Usage: python stand_in.py MODE

`good`; `broken` ends at once; `deaf` never gets ready; `stubborn` ignores SIGTERM; `litter` leaves a child behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ready = self.path == "/readyz" and sys.argv[1] not in ("deaf", "talker")
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"ready" if ready else b"still thinking")
        while sys.argv[1] == "talker":
            self.wfile.write(b" and thinking" * 1000)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(mode: str) -> None:
    home = Path(os.environ["AGENT_DATA_DIR"])
    (home / "environment.json").write_text(json.dumps(dict(os.environ)))
    (home / "pid").write_text(str(os.getpid()))
    if mode == "broken":
        sys.exit("the disk is full")
    if mode == "litter":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (home / "child").write_text(str(child.pid))
    print("this is the stand-in", flush=True)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    if mode == "slow":
        time.sleep(0.3)
    HTTPServer((os.environ["AGENT_HOST"], int(os.environ["AGENT_PORT"])), Handler).serve_forever()


main(sys.argv[1])
