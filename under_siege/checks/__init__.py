"""The rules that make a case `failed`, `suspect` or `unclear`."""
