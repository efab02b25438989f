"""State that all parts of the loop share: turns, live sessions, events, authority."""
