"""Confinement backends: bubblewrap, Landlock with seccomp, another user, or none."""
