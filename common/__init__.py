"""Shared code of the servers: the task, the options, the admission queue, and a kit for each web framework."""
