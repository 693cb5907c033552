"""One kit for each web framework or library, with the shared code of its servers."""
