"""What texts cost one model: estimated from their bytes, by a factor that is learnt from what the model reports."""

from __future__ import annotations

from collections.abc import Mapping

from agent_common.protocol import ModelCard

from .models import EncodingName, encoding_of

MIN_FACTOR = 0.25
MAX_FACTOR = 4.0
"""Bounds of the tokens of a model per estimated one. A report outside of them cannot count what was sent."""
MIN_SAMPLE = 200
"""Estimated tokens below which a report says little about the factor: the frames of messages weigh too much."""
MAX_WEIGHT = 4_000
"""Estimated tokens of earlier reports that the latest one is weighed against."""
MAX_WHOLE_WEIGHT = 500
"""The same for reports of whole requests: these contain tools, which each model is shown in a way of its own."""
OUTLIER_RATIO = 1.6
"""A factor that differs from the one so far by more than this must be reported twice to be believed."""


class TokenCalibration:
    """Learns the factor between estimated and reported tokens of one model. All conversations with it share it."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.encoding: EncodingName | None = encoding_of(model)
        """The encoding by which its tokens can be counted exactly; None for most models. TokenCalibrations keeps it up
        to date: the name may be an alias, whose model may become known, or change, later."""
        self.factor = 1.0
        """Tokens of this model per estimated one (see `estimate`)."""
        self.limit: int | None = None
        """Tokens of the window, as the model has said when it refused a request; None: it has not."""
        self._weight = 0.0
        """Estimated tokens that the factor rests on; 0 before the first report."""
        self._compared = False
        """Whether the factor rests on the difference between requests, which is free of the cost of tools."""
        self._doubt: float | None = None
        """A factor that was reported once and is not believed yet."""

    @property
    def calibrated(self) -> bool:
        """Whether a factor has been learned."""
        return self._weight > 0

    def learn(self, estimated: float, reported: int, *, whole_request: bool = False, trusted: bool = False) -> None:
        """Learn that a text of `estimated` tokens, without the factor, cost `reported` ones. `whole_request`: it was
        a request with its tools, not the difference between two requests. `trusted`: believe an outlier at once.
        Impossible figures change nothing."""
        if estimated < MIN_SAMPLE or not MIN_FACTOR <= reported / estimated <= MAX_FACTOR:
            return
        if whole_request and self._compared and not trusted:
            return
        sample = reported / estimated
        weight = min(estimated, MAX_WHOLE_WEIGHT if whole_request else MAX_WEIGHT)
        if self._weight and not near(sample, self.factor, OUTLIER_RATIO):
            if not trusted and (self._doubt is None or not near(sample, self._doubt, OUTLIER_RATIO)):
                self._doubt = sample
                return
            self._weight = 0.0  # it is another model behind the same name
        self._doubt = None
        self.factor = (self.factor * self._weight + sample * weight) / (self._weight + weight)
        self._weight = min(self._weight + weight, MAX_WHOLE_WEIGHT if whole_request else MAX_WEIGHT)
        self._compared = self._compared or not whole_request

    def learn_window(self, limit: int) -> None:
        """Learn the window, and forget a factor that rests on prompts that were cut to it."""
        self.limit = limit
        self.factor = 1.0
        self._weight = 0.0
        self._doubt = None


def near(one: float, other: float, times: float) -> bool:
    """Return whether neither number is more than `times` the other."""
    return one <= other * times and other <= one * times


class TokenCalibrations:
    """The calibrations of all models in use. Callers choose the names, so their number is bounded: the one that was
    used longest ago goes."""

    def __init__(self, known_cards: Mapping[str, ModelCard], max_models: int = 64) -> None:
        """`known_cards` has the models as they are now, by name; a card may tell the provider's own name."""
        self._known_cards = known_cards
        self._max_models = max_models
        self._by_model: dict[str, TokenCalibration] = {}

    def for_model(self, model: str) -> TokenCalibration:
        """Return the calibration of that model."""
        calibration = self._by_model.pop(model, None) or TokenCalibration(model)
        card = self._known_cards.get(model)
        calibration.encoding = encoding_of((card.upstream if card is not None else None) or model)
        if len(self._by_model) >= self._max_models:
            del self._by_model[next(iter(self._by_model))]
        self._by_model[model] = calibration
        return calibration
