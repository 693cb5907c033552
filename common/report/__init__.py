"""Telling: from records to tables and JSON. Starts no process."""
