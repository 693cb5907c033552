"""One kit for each web framework or library: what all servers that use it share."""
