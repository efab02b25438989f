"""The demo model's one piece of work: a report over a CSV file, as a brief asks for it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic_core import from_json

from .chat import NOTE, paths
from .replay import Action, Result, Script

PROGRAM = Path(__file__).with_name("analyse.py").read_text("utf-8")
"""What the model writes: it finds the columns by itself and takes every number from the file."""
_BRIEF = "brief.md"
_CSV = ".csv"


def is_report_task(text: str) -> bool:
    """Whether a message speaks of a brief and of a CSV file."""
    return _BRIEF in text and "csv" in text.lower()


def report(text: str) -> Script:
    """Look round, read the brief, look at the data, write a program, run it, check, answer."""
    found = yield Action("glob", {"pattern": "**/*"}, f"[{NOTE}] I look for the files of the task.")
    files = paths(found.get("entries", []))
    brief, data = _pick(files, _BRIEF, text), _pick(files, _CSV, text)
    if found.error or brief is None or data is None:
        return _failure("looking for the brief and the CSV file", found.error or f"found only {files}")
    read = yield Action("read", {"path": brief}, f"[{NOTE}] The brief is in {brief}.")
    if read.error:
        return _failure(f"reading {brief}", read.error)
    head = {"command": f"head -n 5 {shlex.quote(data)}", "description": "Show the first rows of the data"}
    rows = yield Action("bash", head, f"[{NOTE}] I look at the first rows of {data}.")
    if why := _complaint(rows):
        return _failure(f"looking at {data}", why)
    written = yield Action("write", {"path": "analyse.py", "content": PROGRAM}, f"[{NOTE}] I write a program.")
    if written.error:
        return _failure("writing analyse.py", written.error)
    return (yield from _run(data))


def _run(data: str) -> Script:
    run = {"command": f"python3 analyse.py {shlex.quote(data)}", "description": "Compute the report"}
    ran = yield Action("bash", run, f"[{NOTE}] I run it over {data}.")
    if why := _complaint(ran):
        return _failure("running analyse.py", why)
    try:
        summary: dict[str, Any] = from_json(str(ran.get("stdout", "")))
    except ValueError as error:
        return _failure("reading what analyse.py printed", str(error))
    checked = yield Action("read", {"path": "report.md"}, f"[{NOTE}] I check the report.")
    if checked.error:
        return _failure("reading report.md back", checked.error)
    result = {**summary, "report": "report.md", "note": f"{NOTE}: a script carried this out, the numbers are computed"}
    topic = PurePosixPath(data).stem
    promoted = {f"{topic}/{key}": value for key, value in summary.items() if key == "total" or key.startswith("top_")}
    return json.dumps({"result": result, "promote": promoted}, ensure_ascii=False)


def _pick(files: list[str], ending: str, text: str) -> str | None:
    """The file with that ending which the task names, else the first there is."""
    fitting = [name for name in files if name.endswith(ending)]
    named = (name for name in fitting if PurePosixPath(name).name in text)
    return next(named, fitting[0] if fitting else None)


def _complaint(ran: Result) -> str | None:
    """Why a command did not do its part."""
    if ran.error:
        return ran.error
    if ran.get("timed_out"):
        return "it was stopped at its deadline"
    return None if ran.get("exit_code") == 0 else f"it ended with {ran.get('exit_code')}: {ran.get('stderr', '')}"


def _failure(doing: str, why: str) -> str:
    result = {"error": f"{doing} failed: {why}", "report": None, "note": f"{NOTE}: a script that stops at failures"}
    return json.dumps({"result": result, "promote": {}}, ensure_ascii=False)
