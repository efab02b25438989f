"""From one command to a finished task: a mesh, one runtime, one assignment over the files in `examples/sales`."""
