"""The page: one HTML file that holds everything, and needs neither a network nor a script."""
