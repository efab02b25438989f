"""What texts cost one model: estimated from their bytes, by a factor that is learnt from what the model reports."""

from __future__ import annotations

from collections.abc import Callable

from .models import EncodingName, encoding_of

LOWEST, HIGHEST = 0.25, 4.0
"""Tokens of a model per estimated one. What is reported beyond that is no count of what was sent."""
TOLD = 200
"""Estimated tokens below which a report says little about the factor: the frames of messages weigh too much."""
MEMORY = 4_000
"""Estimated tokens of earlier reports that the latest one is weighed against."""
WHOLE = 500
"""The same for reports of whole requests: these contain tools, which each model is shown in a way of its own."""
SURPRISE = 1.6
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

    def learn(self, estimated: float, reported: int, *, whole: bool = False, sure: bool = False) -> None:
        """Takes in that a text estimated at so many tokens, without the factor, cost so many. `whole`: that was a
        request with its tools, and not what one request had more than another. `sure`: it is believed at once. Nonsense
        changes nothing."""
        if estimated < TOLD or not LOWEST <= reported / estimated <= HIGHEST:
            return
        if whole and self._compared and not sure:
            return
        sample = reported / estimated
        weight = min(estimated, WHOLE if whole else MEMORY)
        if self._weight and not near(sample, self.factor, SURPRISE):
            if not sure and (self._doubt is None or not near(sample, self._doubt, SURPRISE)):
                self._doubt = sample
                return
            self._weight = 0.0  # it is another model behind the same name
        self._doubt = None
        self.factor = (self.factor * self._weight + sample * weight) / (self._weight + weight)
        self._weight = min(self._weight + weight, WHOLE if whole else MEMORY)
        self._compared = self._compared or not whole


def near(one: float, other: float, times: float) -> bool:
    """Neither is more than so many times the other."""
    return one <= other * times and other <= one * times


class TokenCalibrations:
    """The meters of all models that are spoken to. Callers choose the names, so there is a bound: the one that was
    asked for longest ago goes."""

    def __init__(self, behind: Callable[[str], str | None] = lambda _: None, most: int = 64) -> None:
        """`behind`: the model behind a name; none where that is not known."""
        self._behind, self._most = behind, most
        self._meters: dict[str, TokenCalibration] = {}

    def of(self, model: str) -> TokenCalibration:
        """The meter of that model, always the same one while it is kept."""
        meter = self._meters.pop(model, None) or TokenCalibration(model)
        meter.encoding = encoding_of(self._behind(model) or model)
        if len(self._meters) >= self._most:
            del self._meters[next(iter(self._meters))]
        self._meters[model] = meter
        return meter
