"""Provide a kit for each web framework or library: the code that all servers based on it share."""
