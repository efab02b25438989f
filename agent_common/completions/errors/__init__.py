"""The errors of providers: where they stand, what they say, and what a failure means."""
