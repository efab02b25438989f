"""Prepare text for the index: normalise, split into terms and passages, clean."""
