"""State that all parts of the loop share: turns, live sessions, limits, events, authority."""
