"""The interactive lesson: predict, measure, compare and understand."""
