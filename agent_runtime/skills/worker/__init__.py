"""The code that runs in a worker only: the decorator, the import of a plugin, and the loop that answers calls.

A process starts with this for every plugin, so it imports the standard library only, and no more of it than it needs.
"""
