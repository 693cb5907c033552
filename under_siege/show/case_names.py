"""Name cases by their server and the values that distinguish them."""

import re
from collections.abc import Collection, Iterable, Sequence

from under_siege.formatting import capitalized
from under_siege.judge.summary import Summary
from under_siege.record.case import Case, Value, axis, load_axes

MOST_NAMES = 6  # maximum number of names in a sentence
SHORT = 8  # maximum number of letters of a short name
_WORD = r"[\w.]+|[^\w.]"  # word or separator in a path
# The part of a title before the colon is used as a name unless it has more than LONGEST_PLAIN letters. If it has more
# than BRIEF letters, it is cut.
LONGEST_PLAIN, BRIEF = 70, 30


def varying(cases: Sequence[Case]) -> list[str]:
    """Return the names of the axes on which the cases have different values."""
    names = dict.fromkeys(name for case in cases for name, _ in case.values)
    seen = {name: {value for case in cases if (value := case.get(name)) is not None} for name in names}
    return [name for name, values in seen.items() if len(values) > 1]


def columned(cases: Sequence[Case]) -> list[str]:
    """Return the axes on which the cases differ, except `workers`, which is already one of `COLUMNS`."""
    return [name for name in varying(cases) if name != "workers"]


def across(cases: Sequence[Case]) -> list[str]:
    """Return the axes whose values form the columns of a matrix.

    These are the axes of the load on which the cases differ. If there are none, the other axis with the fewest values
    is used on which most cases have a value. If the cases differ only on that axis, there are no columns, and each
    value gets a row.
    """
    differing, of_load = varying(cases), load_axes(cases)
    if columns := [name for name in differing if name in of_load]:
        return columns
    values = {name: [value for case in cases if (value := case.get(name)) is not None] for name in reversed(differing)}
    common = [name for name in values if len(values[name]) > len(cases) / 2]
    return [min(common, key=lambda name: len(set(values[name])))] if common and len(values) > 1 else []


def name_of(case: Case, cases: Sequence[Case], without: Collection[str] = ()) -> str:
    """Return a name such as `2_async on 3.14.0 with 4 workers`: the server, and the values that distinguish the case.

    If all cases have the same server but different paths, the path replaces the server.

    Args:
        without: axes whose values are left out, in addition to the axes of the load.
    """
    axes = [axis(name) for name in varying(cases) if name not in (*without, *load_axes(cases))]
    values = [differing.suffix(value) for differing in axes if (value := case.get(differing.name)) is not None]
    if axes and axes[0].name == "path" and len({beside.server for beside in cases}) == 1:
        return " ".join([str(case.get("path")), *values[1:]])
    return " ".join([case.server, *values]).replace("workers with", "workers and").replace("worker with", "worker and")


def label(summary: Summary, beside: Sequence[Summary], without: Collection[str] = ()) -> str:
    """Return the name that distinguishes the summary's case from the cases of `beside`, as in `name_of`."""
    return name_of(summary.case, cases_of(beside), without)


def cases_of(summaries: Sequence[Summary]) -> list[Case]:
    return [summary.case for summary in summaries]


def full_name(case: Case, cases: Sequence[Case]) -> str:
    """Return the server and every value that distinguishes the case, such as `2_async (digest, 5 users)`."""
    differing = in_words(case, varying(cases))
    return f"{case.server} ({differing})" if differing else case.server


def in_words(case: Case, names: Sequence[str]) -> str:
    """Return the labels of the case's values on these axes, such as `digest, 5 users`."""
    return ", ".join(axis(name).label(value) for name in names if (value := case.get(name)) is not None)


def load_in_words(case: Case, beside: Sequence[Case]) -> str:
    """Return the values that distinguish the case's load from other loads, such as `digest, 5 users`."""
    of_load = load_axes(beside)
    return in_words(case, [name for name in varying(beside) if name in of_load])


def told_apart(texts: Iterable[str], most: int) -> dict[str, str]:
    """Map each text to a short form that still distinguishes it from the others.

    If any text is longer than `most`, `…` replaces the words with which all texts begin or end.
    """
    longs = list(dict.fromkeys(texts))
    if len(longs) < 2 or max(map(len, longs)) <= most:
        return {text: text for text in longs}
    begin = _common([re.findall(_WORD, text) for text in longs])
    end = _common([re.findall(_WORD, text[len(begin) :])[::-1] for text in longs])
    before, after = ("…" if shared else "" for shared in (begin, end))
    shorts = {text: f"{before}{text[len(begin) : len(text) - len(end)]}{after}" for text in longs}
    cut = {
        text: short if len(short) <= most else f"{short[: most // 2]}…{short[-(most // 2) + 1 :]}"
        for text, short in shorts.items()
    }
    return cut if len(set(cut.values())) == len(longs) else shorts


def _common(lists: Sequence[Sequence[str]]) -> str:
    """Return the words with which all lists begin, joined; at least the last word of each list is left over."""
    least = min(map(len, lists)) - 1
    count = next((place for place in range(least) if len({words[place] for words in lists}) > 1), least)
    return "".join(lists[0][: max(0, count)])


def at(case: Case, names: Sequence[str]) -> tuple[Value | None, ...]:
    return tuple(case.get(name) for name in names)


def short(name: str) -> str:
    """Return the number with which a server's name begins or, without a number, at most `SHORT` letters of the name."""
    number = name.split("_")[0]
    if number.isdecimal():
        return number
    return name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


def in_plain_words(server: str, title: str) -> str:
    """Return a plain name such as `process pool`, taken from the part of the title before the colon.

    If a server has no number, return its own name, which the user chose.
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
    """Return the plain name, followed by the server's number and details, such as `process pool (4, endless task)`."""
    number, what = server.split("_")[0], in_plain_words(server, title)
    if not number.isdecimal() or what == server:
        return f"{name} ({', '.join(more)})" if more else name
    return f"{what} ({', '.join([number + name.removeprefix(server), *more])})"


def with_capital(what: str, server: str) -> str:
    """Return a sentence with a capital first letter, unless it begins with the name of the server."""
    return what if what.startswith(server) else capitalized(what)


def without_capital(what: str) -> str:
    """Return the text with a lowercase first letter, unless its first word is a name like `FastAPI`."""
    return what if any(map(str.isupper, what.split(" ")[0][1:])) else f"{what[:1].lower()}{what[1:]}"


def plain_name(summary: Summary, beside: Sequence[Summary]) -> str:
    """Return the plain name with the values that distinguish the case, such as `process pool with 4 workers`."""
    name, plain = label(summary, beside), in_plain_words(summary.server, summary.title)
    return f"{plain}{name.removeprefix(summary.server)}" if name.startswith(summary.server) else name


def with_file(summary: Summary, beside: Sequence[Summary], *, is_narrow: bool = False) -> str:
    """Return the plain name, followed by the name of the server's file or, if `is_narrow`, by its number."""
    plain, name = plain_name(summary, beside), label(summary, beside)
    return name if plain == name else with_name(plain, summary.server, is_narrow=is_narrow)


def with_name(plain: str, name: str, *, is_narrow: bool = False) -> str:
    """Return both names, or only one if they are equal; if `is_narrow`, shorten the second name."""
    if plain == name:
        return name
    return f"{plain} ({short(name)})" if is_narrow else f"{plain} · {name}"


def numbered(server: str, name: str) -> str:
    """Return the name with its server shortened to a number; if the server has no number, return the name unchanged."""
    return short(server) + name.removeprefix(server) if short(server).isdecimal() else name
