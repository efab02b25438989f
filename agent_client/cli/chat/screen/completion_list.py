"""The list of completions below the input."""

from __future__ import annotations

from prompt_toolkit.buffer import CompletionState
from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.cells import cell_len, set_cell_size

SHOWN = 8


def drawn_completions(state: CompletionState | None, width: int) -> StyleAndTextTuples:
    """Return the completions around the chosen one, each with what it is."""
    if state is None:
        return []
    first = min(max((state.complete_index or 0) - SHOWN // 2, 0), max(len(state.completions) - SHOWN, 0))
    shown = state.completions[first : first + SHOWN]
    column = min(max((cell_len(one.display_text) for one in shown), default=0), max(width // 2, 10))
    lines: StyleAndTextTuples = []
    for number, completion in enumerate(shown, first):
        chosen = number == state.complete_index
        name = set_cell_size(completion.display_text, column)
        about = completion.display_meta_text[: max(width - column - 6, 0)]
        lines.append(("ansicyan bold" if chosen else "", f"{'›' if chosen else ' '} {name}"))  # noqa: RUF001
        lines.append(("ansibrightblack", f"  {about}\n"))
    if lines:
        style, text, *_ = lines.pop()
        lines.append((style, text.rstrip("\n")))
    return lines
