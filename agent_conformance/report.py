"""Render the findings as a table or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from .rules import Finding

_STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}


def as_json(findings: Sequence[Finding]) -> str:
    """Return `{passed, failed, skipped, rules: [{id, text, section, state, seen}]}`."""
    counts = Counter(finding.state for finding in findings)
    body = {state: counts[state] for state in ("passed", "failed", "skipped")}
    return json.dumps({**body, "rules": [asdict(finding) for finding in findings]}, indent=2)


def summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.state for finding in findings)
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} not applicable"


def print_table(findings: Sequence[Finding]) -> None:
    """Print the table to stdout. Text from the other side is shown without control characters and markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("rule", "§", "what it says", "", "what was seen")
    for one in findings:
        seen = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in one.seen)
        table.add_row(one.id, one.section, Text(one.text), Text(one.state, style=_STYLES[one.state]), Text(seen))
    console = Console()
    console.print(table)
    console.print(summary(findings))
