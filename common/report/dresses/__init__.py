"""What is shown where: a terminal, Markdown, CSV, JSON."""
