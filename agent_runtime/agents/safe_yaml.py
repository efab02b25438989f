"""YAML as people write it by hand. Aliases, merges, duplicate keys and deep nesting are refused, as they can
mislead."""

from __future__ import annotations

from typing import Any, cast

import yaml

MAX_DEPTH = 20


class UnsafeYaml(Exception):
    """Raised for invalid or refused YAML; the text gives the reason, with the line if known."""


def load(text: str) -> Any:
    """Parse the text. Raises UnsafeYaml."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  _Loader is a SafeLoader
    except UnsafeYaml:
        raise
    except Exception as error:  # noqa: BLE001  PyYAML does not catch errors of int(), date() and its tables
        why = error if isinstance(error, yaml.YAMLError) else f"a value is not what it looks like ({error}): quote it"
        raise UnsafeYaml(" ".join(str(why).split())[:300]) from None


def load_pair(text: str) -> tuple[str, str]:
    """Parse a mapping of one key to one text; values such as `1.0` and `yes` stay texts too. Raises UnsafeYaml.

    Parsing stops at the first deviation from that, so that the cost is bounded by the length.
    """
    try:
        events = iter(yaml.parse(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        kinds = (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.MappingStartEvent, yaml.ScalarEvent)
        found: list[Any] = []
        for kind in (*kinds, yaml.ScalarEvent, yaml.MappingEndEvent, yaml.DocumentEndEvent, yaml.StreamEndEvent):
            found.append(next(events))
            if not isinstance(found[-1], kind):
                raise UnsafeYaml("must be one text")
        return str(found[3].value), str(found[4].value)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: an invalid character escape
        raise UnsafeYaml(" ".join(str(error).split())[:300]) from None


class _Loader(yaml.SafeLoader):
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = cast(Any, self.peek_event())  # pyright: ignore[reportUnknownMemberType]
        line = int(event.start_mark.line) + 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UnsafeYaml(f"line {line}: is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            raise UnsafeYaml(f"line {line}: aliases (*name) are not taken")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            merge = key.tag == "tag:yaml.org,2002:merge"
            if merge or str(key.value) in seen:
                what = "merges (<<) are not taken" if merge else f"{key.value} is there twice"
                raise UnsafeYaml(f"line {key.start_mark.line + 1}: {what}")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
