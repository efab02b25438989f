"""The folder of plugins: reading, staging, watching, versions."""
