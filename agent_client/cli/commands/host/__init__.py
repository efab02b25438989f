"""Commands for what a host has, as its operator, each in a module of its own."""
