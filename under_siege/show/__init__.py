"""Tables, notes, charts and pages."""
