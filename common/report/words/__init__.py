"""From figures and verdicts to sentences and columns."""
