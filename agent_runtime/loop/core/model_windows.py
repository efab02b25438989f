"""The context windows of models, and the calibration of their token counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_common.protocol import ModelCard

from ...context import ContextWindow, TokenCalibrations


class ModelWindows:
    """The windows of all models, from the configuration, the mesh and refused requests."""

    def __init__(self, configured: Callable[[str], ContextWindow], known_cards: Mapping[str, ModelCard]) -> None:
        """`configured` returns a model's window as far as settings and mesh tell; `known_cards` has the mesh's models
        as they are now, by name."""
        self.configured = configured
        self.known_cards = known_cards
        self.calibrations = TokenCalibrations(known_cards)

    def window(self, model: str) -> ContextWindow:
        """Return the model's window. A refused request may have shown it to be smaller than configured."""
        return self.configured(model).narrowed(self.calibrations.for_model(model).limit)

    def usable(self, model: str) -> int:
        """Return how many tokens of the window a conversation may take before it is compacted."""
        return self.window(model).usable
