"""The files, resources and network of one command."""
