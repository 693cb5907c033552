"""The verdicts: the rules, and what they lean on."""
