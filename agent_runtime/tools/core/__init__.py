"""The contract of a tool and the gate that runs every call."""
