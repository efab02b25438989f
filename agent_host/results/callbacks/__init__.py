"""Callbacks: the host sends results of tasks to URLs that tasks and workspaces name."""
