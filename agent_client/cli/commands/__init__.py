"""The commands of `agent`, a module each."""
