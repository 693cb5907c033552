"""Provide the code that all servers share: the task, options, admission queue, and a kit for each web framework."""
