"""Any text: of the letters that `st.text()` takes, too, which however needs two seconds of a CPU to find out which.

It does so in every process, until it could be kept in a file. (Only surrogates can't be encoded as UTF-8.)
"""

from hypothesis import strategies as st

LETTERS = st.characters(exclude_categories=["Cs"])


def any_text(max_size: int | None = None) -> st.SearchStrategy[str]:
    return st.text(LETTERS, max_size=max_size)
