"""The lesson: predict, run, look, understand."""
