"""The lesson: predict, measure, compare, understand."""
