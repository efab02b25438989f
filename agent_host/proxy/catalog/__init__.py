"""The catalog of models and the providers' keys."""
