"""Turn results into text, tables and export formats."""
