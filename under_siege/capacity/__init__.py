"""Find the highest request rate that each server sustains."""
