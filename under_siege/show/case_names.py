"""Name cases by their server and the values that distinguish them."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Protocol

from under_siege.formatting import capitalized
from under_siege.record.case import Case, HasCase, Value, axis, load_axes

MOST_NAMES = 6  # maximum number of names in a sentence
SHORT = 8  # maximum number of letters of a short name
_WORD = r"[\w.]+|[^\w.]"  # word or separator in a path
# The part of a title before the colon is used as a name unless it has more than LONGEST_PLAIN letters. If it has more
# than BRIEF letters, it is cut.
LONGEST_PLAIN, BRIEF = 70, 30
Setting = tuple[Value | None, ...]  # the values that define a column of a matrix, one for each axis


class Titled(HasCase, Protocol):
    """A value that belongs to a case, and has the title of its server."""

    @property
    def title(self) -> str: ...


class CaseNames:
    """The names of cases that are shown together, and the axes that distinguish the cases."""

    def __init__(self, shown: Iterable[HasCase], *, with_load: bool = False) -> None:
        """Find the axes that distinguish the cases.

        Args:
            with_load: whether names end with the values that distinguish the load, such as `(digest, 5 users)`.
        """
        self.cases = [each.case for each in shown]
        self.axes = varying(self.cases)
        self._of_load, self._with_load = load_axes(self.cases), with_load

    @cached_property
    def across(self) -> list[str]:
        """Return the axes whose values form the columns of a matrix.

        These are the axes of the load on which the cases differ. If there are none, the other axis with the fewest
        values is used on which most cases have a value. If the cases differ only on that axis, there are no columns,
        and each value gets a row.
        """
        if columns := [name for name in self.axes if name in self._of_load]:
            return columns
        values = {name: [value for case in self.cases if (value := case.get(name)) is not None] for name in self.axes}
        common = [name for name in reversed(self.axes) if len(values[name]) > len(self.cases) / 2]
        return [min(common, key=lambda name: len(set(values[name])))] if common and len(values) > 1 else []

    @property
    def settings(self) -> list[Setting]:
        """Return the columns of a matrix: the values on the axes `across`, in each combination that was measured."""
        found = (at(case, self.across) for case in self.cases)
        return list(dict.fromkeys(setting for setting in found if None not in setting))

    def is_shown_in(self, case: Case, setting: Setting) -> bool:
        """Return whether a column shows the case; a case without a value on an axis appears in each of its columns."""
        return all(value in (None, wanted) for value, wanted in zip(at(case, self.across), setting, strict=True))

    def name(self, case: Case, without: Collection[str] = ()) -> str:
        """Return a name such as `2_async on 3.14.0 with 4 workers`: the server, and the values of the case.

        If all cases have the same server but different paths, the path replaces the server.

        Args:
            without: axes whose values are left out; the axes of the load are only shown at the end, if at all.
        """
        axes = [axis(name) for name in self.axes if name not in (*without, *self._of_load)]
        values = [differing.suffix(value) for differing in axes if (value := case.get(differing.name)) is not None]
        has_path = bool(axes) and axes[0].name == "path" and len({beside.server for beside in self.cases}) == 1
        name = " ".join([str(case.get("path")), *values[1:]] if has_path else [case.server, *values])
        name = name.replace("workers with", "workers and").replace("worker with", "worker and")
        load = self.load(case) if self._with_load else ""
        return f"{name} ({load})" if load else name

    def full(self, case: Case) -> str:
        """Return the server and every value that distinguishes the case, such as `2_async (digest, 5 users)`."""
        values = in_words(case, self.axes)
        return f"{case.server} ({values})" if values else case.server

    def load(self, case: Case) -> str:
        """Return the values that distinguish the case's load from other loads, such as `digest, 5 users`."""
        return in_words(case, [name for name in self.axes if name in self._of_load])

    def numbered(self, case: Case) -> str:
        """Return the name with its server shortened to a number, if the server has a number."""
        number, name = short(case.server), self.name(case)
        return number + name.removeprefix(case.server) if number.isdecimal() else name

    def plain(self, one: Titled) -> str:
        """Return the plain name with the values that distinguish the case, such as `process pool with 4 workers`."""
        server, name = one.case.server, self.name(one.case)
        return in_plain_words(server, one.title) + name.removeprefix(server) if name.startswith(server) else name

    def plain_with_number(self, one: Titled) -> str:
        """Return the plain name and the short name of the server, such as `process pool with 4 workers (4)`."""
        plain = self.plain(one)
        return plain if plain == self.name(one.case) else f"{plain} ({short(one.case.server)})"

    def brief(self, one: Titled, *details: str) -> str:
        """Return a name as in `in_brief`, with the values of the case if there are several cases of its server."""
        return in_brief(one.case.server, one.title, *details, name=self.distinct(one.case))

    def distinct(self, case: Case) -> str:
        """Return the server if no other case has it, or else the name of the case."""
        has_twin = any(other.server == case.server and other != case for other in self.cases)
        return self.name(case) if has_twin else case.server

    def in_sentence(self, one: Titled) -> str:
        """Return a name with an article, and the name in tables, such as `a process pool (4_async_processexecutor)`."""
        what, colon, _ = one.title.partition(":")
        what = what.removeprefix("In ").removeprefix("On ")
        if len(what) > BRIEF:
            what = re.split(r",| \(| that ", what)[0]
        name = self.name(one.case)
        return name if not colon or what.lower() == one.case.server.lower() else f"{without_capital(what)} ({name})"


def varying(cases: Sequence[Case]) -> list[str]:
    """Return the names of the axes on which the cases have different values."""
    names = dict.fromkeys(name for case in cases for name, _ in case.values)
    seen = {name: {value for case in cases if (value := case.get(name)) is not None} for name in names}
    return [name for name, values in seen.items() if len(values) > 1]


def labels(case: Case, names: Iterable[str]) -> list[str]:
    """Return the labels of the case's values on these axes, such as `digest` and `5 users`."""
    return [axis(name).label(value) for name in names if (value := case.get(name)) is not None]


def in_words(case: Case, names: Iterable[str]) -> str:
    """Return the labels of the case's values on these axes as text, such as `digest, 5 users`."""
    return ", ".join(labels(case, names))


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


def at(case: Case, names: Sequence[str]) -> Setting:
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


def in_brief(server: str, title: str, *details: str, name: str = "") -> str:
    """Return the plain name, followed by the server's number and details, such as `process pool (4, endless task)`.

    Args:
        name: begins with the server and distinguishes the case from others; empty if the server is enough.
    """
    plain, name = in_plain_words(server, title), name or server
    if plain == server:
        return f"{name} ({', '.join(details)})" if details else name
    return f"{plain} ({', '.join([short(server) + name.removeprefix(server), *details])})"


def with_file(server: str, title: str) -> str:
    """Return the plain name and the name of the file, such as `process pool · 4_async_processexecutor`."""
    plain = in_plain_words(server, title)
    return server if plain == server else f"{plain} · {server}"


def with_capital(what: str, server: str) -> str:
    """Return a sentence with a capital first letter, unless it begins with the name of the server."""
    return what if what.startswith(server) else capitalized(what)


def without_capital(what: str) -> str:
    """Return the text with a lowercase first letter, unless its first word is a name like `FastAPI`."""
    return what if any(map(str.isupper, what.split(" ")[0][1:])) else f"{what[:1].lower()}{what[1:]}"
