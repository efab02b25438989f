"""The tools `web_fetch` and `web_search`."""
