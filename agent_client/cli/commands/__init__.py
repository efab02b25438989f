"""The commands of `agent`, a module each: for one agent in `agent`, for a host in `host`, for a team in `team`."""
