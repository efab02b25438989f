"""The commands of `agent`, a module each: those for one agent in `agent`, those for a host in `host`."""
