"""Find patterns whose cost grows faster than the text: `python -m scripts.patterns`, a part of `make check`."""
