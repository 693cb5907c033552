"""The data model: targets, cases, suites, records, and the result file."""
