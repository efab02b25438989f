"""Run a module and count the code of ours that runs: `python -m tests.bench.hops_program FILE MODULE ARGUMENTS...`.

SIGUSR1 starts a count. The next SIGUSR1 ends it and writes FILE: JSON with the number of different files, of different
functions, and of switches, that is calls from one file of ours to another in the same thread.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
from types import CodeType, FrameType

OURS = tuple(f"{os.sep}agent_{name}{os.sep}" for name in ("common", "runtime", "host"))
INNER = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<lambda>", "<module>")
"""Code without a name of its own counts as its function."""


class Counter:
    def __init__(self, path: str) -> None:
        self._path = path
        self._counting = False
        self._files: dict[CodeType, str | None] = {}
        self._here = threading.local()

    def toggle(self, _signal: int, _frame: FrameType | None) -> None:
        if not self._counting:
            self._seen: set[CodeType] = set()
            self._switches = 0
            self._counting = True
            return
        self._counting = False
        files = {self._files[code] for code in self._seen}
        functions = sum(code.co_name not in INNER for code in self._seen)
        found = {"files": len(files), "functions": functions, "switches": self._switches}
        written = f"{self._path}.new"
        with open(written, "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(written, self._path)

    def hook(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not self._counting:
            return
        code = frame.f_code
        if code not in self._files:
            self._files[code] = code.co_filename if any(part in code.co_filename for part in OURS) else None
        file = self._files[code]
        if file is not None:
            self._seen.add(code)
            self._switches += getattr(self._here, "file", file) != file
            self._here.file = file


def main() -> None:
    _, path, module, *arguments = sys.argv
    counter = Counter(path)
    signal.signal(signal.SIGUSR1, counter.toggle)
    threading.setprofile(counter.hook)
    sys.setprofile(counter.hook)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
