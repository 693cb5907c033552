"""The command `profile`: find what blocks a server."""
