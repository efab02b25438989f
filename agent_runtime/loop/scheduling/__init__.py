"""When turns run: admission, the runner, and the end of a turn."""
