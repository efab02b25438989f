"""The demo model's one piece of work: a report over a CSV file, as a brief asks for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic_core import from_json

from .craft import median_wanted, medians, medians_section
from .json_access import as_list, as_object
from .replay import NOTE, Action, ReplayResult, ReplayTurn, Script

PROGRAM = Path(__file__).with_name("analyse.py").read_text("utf-8")
"""What the model writes: it finds the columns by itself and takes every number from the file."""
_BRIEF = "brief.md"
_CSV = ".csv"
_REPORT = "report.md"


def is_report_task(text: str) -> bool:
    """Whether a message speaks of a brief and of a CSV file."""
    return _BRIEF in text and "csv" in text.lower()


def report(turn: ReplayTurn) -> Script:
    """Look round, read the brief, look at the data, write a program, run it, check, add medians, answer."""
    found = yield Action("glob", {"pattern": "**/*"}, f"[{NOTE}] I look for the files of the task.")
    files = _paths(found.get("entries", []))
    brief = _pick(files, _BRIEF, turn.text)
    data = _pick(files, _CSV, turn.text)
    if found.error or brief is None or data is None:
        return _failure_answer("looking for the brief and the CSV file", found.error or f"found only {files}")
    read = yield Action("read", {"path": brief}, f"[{NOTE}] The brief is in {brief}.")
    if read.error:
        return _failure_answer(f"reading {brief}", read.error)
    head = {"command": f"head -n 5 {shlex.quote(data)}", "description": "Show the first rows of the data"}
    rows = yield Action("bash", head, f"[{NOTE}] I look at the first rows of {data}.")
    if why := _command_fault(rows):
        return _failure_answer(f"looking at {data}", why)
    written = yield Action("write", {"path": "analyse.py", "content": PROGRAM}, f"[{NOTE}] I write a program.")
    if written.error:
        return _failure_answer("writing analyse.py", written.error)
    summary = yield from _run(data)
    if isinstance(summary, str):
        return summary
    by = median_wanted(str(read.get("content", "")))
    found = (yield from medians(turn, data, by, str(rows.get("stdout", "")))) if by else None
    checked = yield Action("read", {"path": _REPORT}, f"[{NOTE}] I check the report.")
    if checked.error:
        return _failure_answer(f"reading {_REPORT} back", checked.error)
    if by and found:
        summary |= yield from _add_medians(by, found, checked)
    return _answer(data, summary)


def _run(data: str) -> Generator[Action, ReplayResult, dict[str, Any] | str]:
    """What the program prints; or the final words, where it came to nothing."""
    run = {"command": f"python3 analyse.py {shlex.quote(data)}", "description": "Compute the report"}
    ran = yield Action("bash", run, f"[{NOTE}] I run it over {data}.")
    if why := _command_fault(ran):
        return _failure_answer("running analyse.py", why)
    try:
        return as_object(from_json(str(ran.get("stdout", ""))))
    except ValueError as error:
        return _failure_answer("reading what analyse.py printed", str(error))


def _add_medians(by: str, found: ReplayResult, report: ReplayResult) -> Generator[Action, ReplayResult, dict[str, Any]]:
    """What the medians add to the result. Without them there still is a report, and the result says what it lacks."""
    amounts = {name: value for name, value in as_object(found.data).items() if isinstance(value, int | float)}
    why = found.error or (None if amounts else "the tool gave no amounts") or _too_long(report)
    if why is None:
        content = str(report.get("content", "")) + medians_section(by, amounts)
        more = {"path": _REPORT, "content": content}
        why = (yield Action("write", more, f"[{NOTE}] I add the medians to the report.")).error
    return {"left_out": f"median order by {by}: {why}"} if why else {f"median_by_{by}": amounts}


def _too_long(report: ReplayResult) -> str | None:
    return "the report is too long to be read whole" if report.get("next") else None


def _answer(data: str, summary: dict[str, Any]) -> str:
    result = {**summary, "report": _REPORT, "note": f"{NOTE}: a script carried this out, the numbers are computed"}
    topic = PurePosixPath(data).stem
    promoted = {f"{topic}/{key}": value for key, value in summary.items() if key == "total" or key.startswith("top_")}
    return json.dumps({"result": result, "promote": promoted}, ensure_ascii=False)


def _paths(entries: object) -> list[str]:
    """The paths in the entries of a glob, which are texts or objects with a `path`."""
    named = [as_object(entry).get("path", entry) for entry in as_list(entries)]
    return [name for name in named if isinstance(name, str)]


def _pick(files: list[str], ending: str, text: str) -> str | None:
    """The file with that ending which the task names, else the first there is."""
    fitting = [name for name in files if name.endswith(ending)]
    named = (name for name in fitting if PurePosixPath(name).name in text)
    return next(named, fitting[0] if fitting else None)


def _command_fault(ran: ReplayResult) -> str | None:
    """Why a command did not do its part."""
    if ran.error:
        return ran.error
    if ran.get("timed_out"):
        return "it was stopped at its deadline"
    return None if ran.get("exit_code") == 0 else f"it ended with {ran.get('exit_code')}: {ran.get('stderr', '')}"


def _failure_answer(doing: str, why: str) -> str:
    result = {"error": f"{doing} failed: {why}", "report": None, "note": f"{NOTE}: a script that stops at failures"}
    return json.dumps({"result": result, "promote": {}}, ensure_ascii=False)
