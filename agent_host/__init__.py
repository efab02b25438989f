"""The host: holds every credential and every authority, and runs the mesh that agents live in."""
