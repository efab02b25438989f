"""What runs in a worker, and nowhere else: the decorator, the import of a plugin, and the loop that answers calls.

A process starts with this for every plugin, so it takes the standard library only, and no more of it than it needs.
"""
