"""The calls of an answer: put together from their pieces, mended, and found where they are written as text."""
