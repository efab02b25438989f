"""A folder of plugins under change, and what of it must show once the server has judged it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MOST = 10
"""Plugins at the same time: what is kept per plugin must not look like growth."""
BREAKS = {
    "syntax": "def broken(:\n",
    "raises": "raise RuntimeError('not today')\n",
    "exits": "import os; os._exit(7)\n",
    "empty": "",
    "clash": '@skill(name="anchor", description="Takes a name.")\ndef f(): return 0\n',
    "builtin": '@skill(name="bash", description="Takes a name.")\ndef f(): return 0\n',
    "checked": '@skill(name="fine", description="d")\ndef f(): return 0\ndef self_check(): raise ValueError("no")\n',
    "bytes": "x = '\udcff'\n",
}
CODE = """
@skill(name="{name}", description="Says {value}.")
def says(n: int):
    import _helper
    return [n, {value}]
"""


@dataclass(frozen=True, slots=True)
class Lying:
    """One plugin as it lies there, and what must be in service of it."""

    name: str
    """Of its skill."""
    good: int | None
    """What the last good version says; none: there has not been one."""
    broken: bool = False


class Shelf:
    """Changes the folder by the dice; `missing` says what the server does not show yet."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder, self.dice = folder, dice
        self.plugins: dict[str, Lying] = {}
        self._numbers = iter(range(1, 10**9))
        self.done: list[str] = []
        """What was changed, for whoever wants to know how it came to this."""
        (folder / "_helper.py").write_text("number = 0\n")
        (folder / "anchor.py").write_text('@skill(name="anchor", description="Stays.")\ndef f(): return 0\n')

    def number(self) -> int:
        return next(self._numbers)

    def any(self) -> str:
        file = self.dice.choice(sorted(self.plugins))
        self.done.append(file)
        return file

    # changes by hand

    def add(self) -> None:
        number = self.number()
        self.save(f"plugin{number}.py", Lying(f"says_{number}", number))

    def save(self, file: str, lying: Lying) -> None:
        """As editors do: in place, or beside and then moved there."""
        self.plugins[file] = lying
        self._write(file, code(lying.name, lying.good or 0))

    def edit(self) -> None:
        file = self.any()
        self.save(file, Lying(self.plugins[file].name, self.number()))

    def spoil(self) -> None:
        file = self.any()
        self.plugins[file] = replace(self.plugins[file], broken=True)
        how = self.dice.choice(list(BREAKS))
        self.done.append(f"spoil {file} {how}")
        self._write(file, BREAKS[how])

    def half(self) -> None:
        """Half of it first, and the rest a moment later."""
        file = self.any()
        lying = self.plugins[file] = Lying(self.plugins[file].name, self.number())
        text = code(lying.name, lying.good or 0)
        (self.folder / file).write_text(text[: len(text) // 2])
        (self.folder / file).write_text(text)

    def rename(self) -> None:
        file = self.any()
        lying = self.plugins[file]
        if lying.broken:
            return self.edit()
        new = f"plugin{self.number()}.py"
        (self.folder / file).rename(self.folder / new)
        self.plugins[new] = self.plugins.pop(file)
        return None

    def delete(self) -> None:
        file = self.any()
        (self.folder / file).unlink()
        del self.plugins[file]

    def litter(self) -> None:
        """What is no plugin; then an edit, so that there is something to wait for."""
        for name in (".#lock", "notes.txt", "plugin.py~", "4913"):
            (self.folder / name).write_text("x")
            (self.folder / name).unlink()
        self.edit()

    def help(self) -> None:
        """All of them see it, so all are tried anew."""
        (self.folder / "_helper.py").write_text(f"number = {self.number()}\n")

    def _write(self, file: str, text: str) -> None:
        data = text.encode(errors="surrogateescape")
        if self.dice.random() < 0.5:
            (self.folder / file).write_bytes(data)
        else:
            beside = self.folder / f".{file}.tmp"
            beside.write_bytes(data)
            beside.replace(self.folder / file)

    # what must show

    def missing(self, card: Mapping[str, Any]) -> list[str]:
        """What the card does not say yet, or should not say."""
        told = {one["function"]["name"]: one["function"]["description"] for one in card["tool_definitions"]}
        states = {one["file"]: one for one in card["skills"]}
        found = [f"{file} is still there" for file in states.keys() - self.plugins.keys() - {"anchor.py"}]
        if told.get("anchor") != "Stays.":
            found.append("the anchor is lost")
        for file, lying in self.plugins.items():
            state = states.get(file, {"state": "unknown"})
            if lying.good is not None and told.get(lying.name) != f"Says {lying.good}.":
                found.append(f"{file} does not say {lying.good} but {told.get(lying.name)}: {state}")
            if state["state"] != ("failed" if lying.good is None else "active"):
                found.append(f"{file} is {state}")
            if lying.broken != bool(state.get("error")):
                found.append(f"{file} should {'' if lying.broken else 'not '}have an error: {state}")
        return found


def code(name: str, value: int) -> str:
    return CODE.format(name=name, value=value)
