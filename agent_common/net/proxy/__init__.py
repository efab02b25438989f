"""The forward proxy that admits listed hosts only."""
