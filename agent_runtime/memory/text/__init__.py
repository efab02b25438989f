"""Text on its way into the index: normalised, split into terms and passages, cleaned."""
