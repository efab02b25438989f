"""The files of the workspace for callers over HTTP."""
