"""Writes the tables of docs/protocols: the two dialects field by field, the control frames, and the rules of the
conformance tester. `python -m scripts.protocols`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_common.protocol.work import CONTROLS, work_schemas
from agent_conformance import AGENT_RULES, HUB_RULES, LISTENER_RULES, ConformanceRule

FOLDER = Path(__file__).parent.parent / "docs" / "protocols"
LOOSE: dict[str, dict[str, str]] = {
    "WorkRequest": {
        "request_id": "the same",
        "principal": "a plain string: a user whom nobody has verified",
        "content": "the same, or any JSON: then `content_kind` is `json`",
        "content_kind": "filled in: `text` or `json`",
        "constraints_version": "filled in: the version that the agent works under",
        "submitted_at": "filled in: now",
        "audit_ref": "filled in: the request's id",
    },
    "WorkResult": {
        "request_id": "the same",
        "status": "`ok` true or false: `completed` or `failed`",
        "content": "the same, or any JSON",
        "completed_at": "filled in: now",
        "audit_ref": "filled in: that of the request",
    },
    "LifecycleSignal": {
        "signal": "the same",
        "agent_id": "filled in: whom the host knows at this end",
        "observed_at": "filled in: now",
    },
}
"""Shape -> field -> what the loose dialect has in its place. A field that is not named may be left out."""


def pages() -> dict[Path, str]:
    """Return each page with its generated tables; the text around the tables is kept."""
    protocol = FOLDER / "mediation.md"
    tester = FOLDER / "conformance.md"
    text = _replace_table(protocol.read_text(encoding="utf-8"), "dialects", dialects())
    anchors = _anchors(text)
    rules = _replace_table(tester.read_text(encoding="utf-8"), "agents", rules_of(AGENT_RULES, anchors))
    return {
        protocol: _replace_table(text, "controls", controls()),
        tester: _replace_table(
            _replace_table(rules, "listeners", rules_of(LISTENER_RULES, anchors)), "hubs", hub_rules(HUB_RULES)
        ),
    }


def rules_of(rules: Sequence[ConformanceRule[Any]], anchors: Mapping[str, str]) -> str:
    """Return the table of the conformance tester's rules. `anchors` maps the number of each section of the protocol's
    page to its anchor; a rule of any other section raises KeyError."""
    rows = ["| rule | what it says | section | loose |", "|---|---|---|---|"]
    rows += [
        f"| {rule.id} | {rule.text} | [{rule.section}](mediation.md#{anchors[rule.section]}) |"
        f" {'yes' if rule.loose else ''} |"
        for rule in sorted(rules, key=lambda rule: rule.id)
    ]
    return "\n".join(rows) + "\n"


def hub_rules(rules: Sequence[ConformanceRule[Any]]) -> str:
    """Return the table of the rules for hubs, each with the section of the hub's page that it is from."""
    rows = ["| rule | what it says | section |", "|---|---|---|"]
    rows += [
        f"| {rule.id} | {rule.text} | [{rule.section}](hub.md#{rule.section.lower().replace(' ', '-')}) |"
        for rule in sorted(rules, key=lambda rule: rule.id)
    ]
    return "\n".join(rows) + "\n"


def dialects() -> str:
    """The base shapes, field by field."""
    schemas = work_schemas()
    rows = ["| shape | field | strict | loose |", "|---|---|---|---|"]
    for name, schema in schemas.items():
        if not name.startswith("ctl-"):
            rows += [_row(name, field, schema) for field in schema["properties"]]
    return "\n".join(rows) + "\n"


def controls() -> str:
    """The control frames."""
    rows = ["| frame | what it says | fields |", "|---|---|---|"]
    for name, kind in CONTROLS.items():
        schema = work_schemas()[f"ctl-{name}"]
        required = schema["required"]
        fields = [f"`{field}{'' if field in required else '?'}`" for field in schema["properties"] if field != "ctl"]
        rows.append(
            f"| `{name}` | {' '.join((kind.__doc__ or '').split()) or 'The answer to a ping.'} | {', '.join(fields)} |"
        )
    return "\n".join(rows) + "\n"


def _anchors(page: str) -> dict[str, str]:
    headings = re.findall(r"(?m)^#+ ([0-9.]+) (.+)$", page)
    return {number: f"{number.replace('.', '')}-{title.lower().replace(' ', '-')}" for number, title in headings}


def _row(shape: str, field: str, schema: dict[str, Any]) -> str:
    spec = schema["properties"][field]
    needed = "required" if field in schema["required"] else f"default {_default(spec.get('default'))}"
    loose = LOOSE.get(shape, {}).get(field, "may be left out" if shape in LOOSE else "not in this dialect")
    return f"| {shape} | `{field}` | {_kind(spec)}, {needed} | {loose} |"


def _default(value: Any) -> str:
    return "none" if value is None else f"`{value}`"


def _kind(spec: dict[str, Any]) -> str:
    if "anyOf" in spec:
        return _kind(spec["anyOf"][0])
    if "enum" in spec:
        return ", ".join(f"`{one}`" for one in spec["enum"])
    if "$ref" in spec:
        return f"`{spec['$ref'].rpartition('/')[2]}`"
    if spec.get("format"):
        return "time"
    kind: str = spec["type"]
    return {"array": "list of strings", "boolean": "true or false"}.get(kind, kind)


def _replace_table(text: str, mark: str, table: str) -> str:
    begin = f"<!-- {mark}: made by scripts/protocols.py -->\n"
    end = f"<!-- end of {mark} -->\n"
    before, found, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no line {begin.strip()}")
    return before + begin + table + end + after


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
