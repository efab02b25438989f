"""The catalog of models, and the keys of providers."""
