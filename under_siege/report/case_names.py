"""Name cases by their server and the axes in which they differ."""

import re
from collections.abc import Collection, Iterable, Sequence

from under_siege.analysis.summary import Summary
from under_siege.formatting import capitalized
from under_siege.model.case import Case, Value, axis, load_axes

SHORT = 8  # maximum letters of a short name
_WORD = r"[\w.]+|[^\w.]"  # word or separator in a path
LONGEST_PLAIN, BRIEF = 70, 30  # maximum letters of a plain name in text, and in a chart


def varying(cases: Sequence[Case]) -> list[str]:
    """Return the axes in which the cases differ."""
    names = dict.fromkeys(name for case in cases for name, _ in case.values)
    seen = {name: {value for case in cases if (value := case.get(name)) is not None} for name in names}
    return [name for name, values in seen.items() if len(values) > 1]


def columned(cases: Sequence[Case]) -> list[str]:
    """Return the axes in which the cases differ, except workers, which every table has as a column."""
    return [name for name in varying(cases) if name != "workers"]


def across(cases: Sequence[Case]) -> list[str]:
    """Return the axes that form the columns of a matrix: the axes of the load, or the axis with the fewest values.

    If there is only one axis, its values are rows.
    """
    differing, of_load = varying(cases), load_axes(cases)
    if columns := [name for name in differing if name in of_load]:
        return columns
    values = {name: {case.get(name) for case in cases} - {None} for name in reversed(differing)}
    return [min(values, key=lambda name: len(values[name]))] if len(values) > 1 else []


def name_of(case: Case, cases: Sequence[Case], without: Collection[str] = ()) -> str:
    """Return the server and the values in which the cases differ, such as `2_async on 3.14.0 with 4 workers`.

    If there is only one server, a route is named by its path.

    Args:
        without: axes to omit; the axes of the load are always omitted.
    """
    axes = [axis(name) for name in varying(cases) if name not in (*without, *load_axes(cases))]
    values = [differing.suffix(value) for differing in axes if (value := case.get(differing.name)) is not None]
    if axes and axes[0].name == "path" and len({beside.server for beside in cases}) == 1:
        return " ".join([str(case.get("path")), *values[1:]])
    return " ".join([case.server, *values])


def label(summary: Summary, beside: Sequence[Summary], without: Collection[str] = ()) -> str:
    """Return the name of the summary's case, as in `name_of`."""
    return name_of(summary.case, cases_of(beside), without)


def cases_of(summaries: Sequence[Summary]) -> list[Case]:
    return [summary.case for summary in summaries]


def full_name(case: Case, cases: Sequence[Case]) -> str:
    """Return the server and all values in which the cases differ, such as `2_async (digest, 5 users)`."""
    differing = in_words(case, varying(cases))
    return f"{case.server} ({differing})" if differing else case.server


def in_words(case: Case, names: Sequence[str]) -> str:
    """Return the values on these axes, such as `digest, 5 users`."""
    return ", ".join(axis(name).label(value) for name in names if (value := case.get(name)) is not None)


def load_in_words(case: Case, beside: Sequence[Case]) -> str:
    """Return the values in which the loads of the cases differ, such as `digest, 5 users`."""
    of_load = load_axes(beside)
    return in_words(case, [name for name in varying(beside) if name in of_load])


def told_apart(texts: Iterable[str], most: int) -> dict[str, str]:
    """Return a short form for each text: if any text is longer than `most`, without their common beginning and end."""
    longs = list(dict.fromkeys(texts))
    if len(longs) < 2 or max(map(len, longs)) <= most:
        return {text: text for text in longs}
    begin = _common([re.findall(_WORD, text) for text in longs])
    end = _common([re.findall(_WORD, text[len(begin) :])[::-1] for text in longs])
    shorts = {text: f"{'…' * bool(begin)}{text[len(begin) : len(text) - len(end)]}{'…' * bool(end)}" for text in longs}
    cut = {
        text: short if len(short) <= most else f"{short[: most // 2]}…{short[-(most // 2) + 1 :]}"
        for text, short in shorts.items()
    }
    return cut if len(set(cut.values())) == len(longs) else shorts


def _common(lists: Sequence[Sequence[str]]) -> str:
    """Return the words that all lists begin with, as one text."""
    least = min(map(len, lists)) - 1
    count = next((place for place in range(least) if len({words[place] for words in lists}) > 1), least)
    return "".join(lists[0][: max(0, count)])


def at(case: Case, names: Sequence[str]) -> tuple[Value | None, ...]:
    return tuple(case.get(name) for name in names)


def short(name: str) -> str:
    """Return the number of a server, or the beginning of its name if it has no number."""
    number = name.split("_")[0]
    return number if number.isdecimal() else name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


def in_plain_words(server: str, title: str) -> str:
    """Return a plain name such as `process pool`, from the words before the colon of the title.

    A server without a number keeps the name that the user gave it.
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
    """Return the plain name with number and details, such as `process pool (4, endless task)`."""
    number, what = server.split("_")[0], in_plain_words(server, title)
    if not number.isdecimal() or what == server:
        return f"{name} ({', '.join(more)})" if more else name
    return f"{what} ({', '.join([number + name.removeprefix(server), *more])})"


def with_capital(what: str, server: str) -> str:
    """Capitalize the beginning of a sentence, unless it is the name of the server."""
    return what if what.startswith(server) else capitalized(what)


def without_capital(what: str) -> str:
    """Return the text with a lowercase first letter; a name like `FastAPI` keeps its capital."""
    return what if any(map(str.isupper, what.split(" ")[0][1:])) else f"{what[:1].lower()}{what[1:]}"


def plain_name(summary: Summary, beside: Sequence[Summary]) -> str:
    """Return the plain name and the values in which the cases differ, such as `process pool with 4 workers`."""
    name, plain = label(summary, beside), in_plain_words(summary.server, summary.title)
    return f"{plain}{name.removeprefix(summary.server)}" if name.startswith(summary.server) else name


def with_file(summary: Summary, beside: Sequence[Summary], *, is_narrow: bool = False) -> str:
    """Return the plain name with the name of the file, or only its number if `is_narrow`."""
    plain, name = plain_name(summary, beside), label(summary, beside)
    return name if plain == name else with_name(plain, summary.server, is_narrow=is_narrow)


def with_name(plain: str, name: str, *, is_narrow: bool = False) -> str:
    """Return both names, or only one if they are equal."""
    if plain == name:
        return name
    return f"{plain} ({short(name)})" if is_narrow else f"{plain} · {name}"
