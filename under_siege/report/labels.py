"""Name cases so that they can be told apart: by server, and by the axes on which they differ."""

import re
from collections.abc import Collection, Sequence

from under_siege.analysis.summary import Summary
from under_siege.formatting import capitalized
from under_siege.model.case import Case, Value, axis

SHORT = 8  # letters
LONGEST_PLAIN, BRIEF = 70, 30  # of a name in plain words; of one that stands in a picture


def varying(cases: Sequence[Case]) -> list[str]:
    """The axes in which they differ, in their order."""
    names = dict.fromkeys(name for case in cases for name, _ in case.values)
    seen = {name: {value for case in cases if (value := case.get(name)) is not None} for name in names}
    return [name for name, values in seen.items() if len(values) > 1]


def columned(cases: Sequence[Case]) -> list[str]:
    """Those of them that need a column of their own in a table; the workers have one as a figure."""
    return [name for name in varying(cases) if name != "workers"]


def across(cases: Sequence[Case]) -> list[str]:
    """The axes that a matrix has columns for: those of the load, or the last one where only others vary; or none."""
    found = varying(cases)
    of_load = [name for name in found if axis(name).of_load]
    return of_load or (found[-1:] if len(found) > 1 else [])


def name_of(case: Case, cases: Sequence[Case], without: Collection[str] = ()) -> str:
    """The server, and how it is run where the cases differ in that: `2_async on 3.14.0 with 4 workers`.

    Args:
        without: axes that are told elsewhere; those of the load always are.
    """
    told = [axis(name) for name in varying(cases) if name not in without and not axis(name).of_load]
    values = [one.suffix(value) for one in told if (value := case.get(one.name)) is not None]
    return " ".join([case.server, *values])


def label(summary: Summary, beside: Sequence[Summary], without: Collection[str] = ()) -> str:
    """As `name_of`."""
    return name_of(summary.case, cases_of(beside), without)


def cases_of(summaries: Sequence[Summary]) -> list[Case]:
    return [one.case for one in summaries]


def full_name(case: Case, cases: Sequence[Case]) -> str:
    """The server, and in brackets all values in which the cases differ: `2_async (digest, 5 users)`."""
    differing = in_words(case, varying(cases))
    return f"{case.server} ({differing})" if differing else case.server


def in_words(case: Case, names: Sequence[str]) -> str:
    """Its values on some axes: `digest, 5 users`."""
    return ", ".join(axis(name).label(value) for name in names if (value := case.get(name)) is not None)


def load_in_words(case: Case, beside: Sequence[Case] = ()) -> str:
    """What it is asked for, as far as those beside it are not asked for the same: `digest, 5 users`."""
    differing = varying(beside)
    return in_words(case, [name for name, _ in case.load if name in differing or not beside])


def at(case: Case, names: Sequence[str]) -> tuple[Value | None, ...]:
    return tuple(case.get(name) for name in names)


def short(name: str) -> str:
    """Where there is little room: the number of a server, or else the beginning of its name."""
    number = name.split("_")[0]
    return number if number.isdecimal() else name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


def in_plain_words(server: str, title: str) -> str:
    """What a strategy is, from the words before the colon of its title, such as `process pool`; else its name.

    What has no number was named by those who measure it, for themselves.
    """
    what, colon, _ = title.partition(":")
    if not colon or len(what) > LONGEST_PLAIN or not server.split("_")[0].isdecimal():
        return server
    for word in ("In ", "On ", "A ", "An ", "a ", "an ", "the ", "The "):
        what = what.removeprefix(word)
    what = what.replace("`", "")
    if len(what) > BRIEF:
        what = re.split(r",| \(| of this ", what)[0]
    what = without_capital(what.replace(",", ""))
    return server if what.lower() == server.lower() else what


def in_brief(name: str, server: str, title: str, *more: str) -> str:
    """What it is and its number, with what else is told of it: `process pool (4, endless task)`; else its name."""
    number, what = server.split("_")[0], in_plain_words(server, title)
    if not number.isdecimal() or what == server:
        return f"{name} ({', '.join(more)})" if more else name
    return f"{what} ({', '.join([number + name.removeprefix(server), *more])})"


def with_capital(what: str, server: str) -> str:
    """As a sentence begins, unless that is with the name of the server itself."""
    return what if what.startswith(server) else capitalized(what)


def without_capital(what: str) -> str:
    """As it stands inside a sentence; a name like `FastAPI` keeps its capital."""
    return what if any(map(str.isupper, what.split(" ")[0][1:])) else f"{what[:1].lower()}{what[1:]}"


def plain_name(summary: Summary, beside: Sequence[Summary]) -> str:
    """In plain words, and how it is run where the cases differ in that: `process pool with 4 workers`."""
    name = label(summary, beside)
    return f"{in_plain_words(summary.server, summary.title)}{name.removeprefix(summary.server)}"


def with_file(summary: Summary, beside: Sequence[Summary], *, is_narrow: bool = False) -> str:
    """In plain words, with the name of its file beside them, or only the number of that where there is little room."""
    plain, name = plain_name(summary, beside), label(summary, beside)
    return name if plain == name else with_name(plain, summary.server, is_narrow=is_narrow)


def with_name(plain: str, name: str, *, is_narrow: bool = False) -> str:
    """Both beside each other; once where they are the same."""
    if plain == name:
        return name
    return f"{plain} ({short(name)})" if is_narrow else f"{plain} · {name}"
