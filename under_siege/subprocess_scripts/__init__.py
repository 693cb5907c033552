"""Scripts that run as separate processes. Scripts for the target's Python import no module of `under_siege`."""
