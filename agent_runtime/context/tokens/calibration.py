"""What texts cost one model: estimated from their bytes, by a factor that is learnt from what the model reports."""

from __future__ import annotations

from collections.abc import Callable

from .models import EncodingName, encoding_of

MIN_FACTOR, MAX_FACTOR = 0.25, 4.0
"""Tokens of a model per estimated one. What is reported beyond that is no count of what was sent."""
MIN_SAMPLE = 200
"""Estimated tokens below which a report says little about the factor: the frames of messages weigh too much."""
MAX_WEIGHT = 4_000
"""Estimated tokens of earlier reports that the latest one is weighed against."""
MAX_WHOLE_WEIGHT = 500
"""The same for reports of whole requests: these contain tools, which each model is shown in a way of its own."""
OUTLIER_RATIO = 1.6
"""A factor so many times as high or as low as the one so far must be reported twice to be believed."""


class TokenCalibration:
    """The factor of one model, shared by all conversations with it. It never waits and keeps a few numbers."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.encoding: EncodingName | None = encoding_of(model)
        """In which its tokens can be counted exactly; none for most models. `Meters` keeps it up to date: the name may
        be an alias, and the model behind it may become known, or another one, later."""
        self.factor = 1.0
        """Tokens of this model per estimated one (see `estimate`)."""
        self.limit: int | None = None
        """Tokens of the window, as the model itself has said when it refused a request; none: it has not."""
        self._weight = 0.0
        """Estimated tokens that the factor rests on; none before the first report."""
        self._compared = False
        """It rests on what requests had more than the ones before them."""
        self._doubt: float | None = None
        """A factor that was reported once and not believed."""

    @property
    def calibrated(self) -> bool:
        """The factor has been learnt."""
        return self._weight > 0

    def learn(self, estimated: float, reported: int, *, whole_request: bool = False, trusted: bool = False) -> None:
        """Takes in that a text estimated at so many tokens, without the factor, cost so many. `whole`: that was a
        request with its tools, and not what one request had more than another. `sure`: it is believed at once. Nonsense
        changes nothing."""
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


def near(one: float, other: float, times: float) -> bool:
    """Neither is more than so many times the other."""
    return one <= other * times and other <= one * times


class TokenCalibrations:
    """The meters of all models that are spoken to. Callers choose the names, so there is a bound: the one that was
    asked for longest ago goes."""

    def __init__(self, upstream_of: Callable[[str], str | None] = lambda _: None, max_models: int = 64) -> None:
        """`behind`: the model behind a name; none where that is not known."""
        self._upstream_of, self._max_models = upstream_of, max_models
        self._by_model: dict[str, TokenCalibration] = {}

    def for_model(self, model: str) -> TokenCalibration:
        """The meter of that model, always the same one while it is kept."""
        meter = self._by_model.pop(model, None) or TokenCalibration(model)
        meter.encoding = encoding_of(self._upstream_of(model) or model)
        if len(self._by_model) >= self._max_models:
            del self._by_model[next(iter(self._by_model))]
        self._by_model[model] = meter
        return meter
