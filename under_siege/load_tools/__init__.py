"""One module for each load tool: its command line and how to parse its output. Nothing is started here."""
