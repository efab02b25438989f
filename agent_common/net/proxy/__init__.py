"""The forward proxy, which connects only to allowed hosts."""
