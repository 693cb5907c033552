"""Provide a kit for each web framework or library: the code that its servers share."""
