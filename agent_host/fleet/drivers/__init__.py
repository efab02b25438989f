"""Ways to run a runtime: a process, a container, a microVM, or one that is booted elsewhere."""
