"""What a step says on a terminal: the question, then what was seen, in lines of 80 columns at the most."""

import math
import textwrap
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.analysis.summary import Summary
from under_siege.capacity.capacity_result import capacities
from under_siege.checks.verdict import FAILED
from under_siege.faults import drill_export
from under_siege.lesson.assertions import HOLDS, NOT_HERE, Found, found_in
from under_siege.lesson.capacity_figures import Amount
from under_siege.lesson.lesson_figures import ResultView
from under_siege.lesson.progress_store import Notebook
from under_siege.lesson.step import Code, Page, Step, committed, lines_of
from under_siege.model.record import Result, load
from under_siege.paths import ROOT
from under_siege.report.labels import cases_of, in_plain_words, in_words, varying
from under_siege.trace.timeline_text import TimelinesAsText

WIDTH = 80
TRACES = "results/sample.json"  # which has those of every server at primes
MARKS = {HOLDS: "✓", NOT_HERE: "✗"}  # and a question mark for what is not decided
# What a column of the table is called, by the figure that is in it, and what that means in a few words.
COLUMNS = {
    "rate": ("answers/s", "right answers per second; ±: 95 % confidence interval (step 13)"),
    "printed rate": ("answers/s", "as the load tool counts them, right or wrong"),
    "p50": ("usual wait", "how long a user waited for an answer: half waited less"),
    "p99": ("longest waits", "99 of 100 users waited less for an answer (p99)"),
    "ping p50": ("usual ping", "how long a request took that costs nothing: half took less"),
    "ping p99": ("longest pings", "99 of 100 requests that cost nothing took less (ping p99)"),
    "memory": ("memory", "of the server and all its processes"),
    "cpu": ("CPU/answer", "CPU time of the server for each answer"),
}


def console() -> Console:
    """Of the terminal, but no wider than 80 columns."""
    found = Console()
    return Console(width=min(WIDTH, found.width) if found.is_terminal else WIDTH, highlight=False)


def paragraph(text: str, indent: str = "") -> str:
    """In lines that fit, however the file has them; an empty line parts paragraphs."""
    parts = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n\n".join(
        textwrap.fill(part, WIDTH - 2, initial_indent=indent, subsequent_indent=indent) for part in parts
    )


def asked(step: Step, page: Page, place: int) -> str:
    """Title, question and answers: 12 lines at the most."""
    count = f" ({place} of {len(step.pages)})" if len(step.pages) > 1 else ""
    title = f"{step.number}. {step.title}{count}"
    answers = (
        textwrap.fill(_flat(answer.text), WIDTH - 2, initial_indent=f"  {letter}  ", subsequent_indent="     ")
        for letter, answer in zip(page.letters, page.answers, strict=True)
    )
    return "\n".join([title, paragraph(page.question), *answers])


def _flat(text: str) -> str:
    return " ".join(text.split())


def pictures(page: Page, result: Result, seen: ResultView) -> Iterator[RenderableType]:
    """What there is to look at."""
    if "timeline" in page.show and result.traces:
        yield TimelinesAsText(result)
    if "table" in page.show and result.incidents:
        yield drill_export.as_table(result)
    elif "table" in page.show and result.steps:
        yield Group(_rates(page, result, seen), Text("\n".join(OF_RATES), style="dim"))
    elif "table" in page.show and result.records:
        beside = [paragraph(line) for line in (*failures(page, seen), *legend(page))]
        yield Group(_table(page, seen), Text("\n".join(beside), style="dim"))


RATES = ("arrivals/s", "in time/s", "p99 wait", "", "p99 ping", "")
OF_RATES = (
    "in time: answered within the promise",
    "p99: 99 of 100 took less; two blocks more: 10 times as long; never: refused or lost",
    "✗: the promise is broken",
)
_SHORTEST_S, _LONGEST_S = 0.001, 10.0  # between which a bar grows


def _rates(page: Page, result: Result, seen: ResultView) -> Table:
    """What became of each rate that was offered, with a bar as long as the wait, and last the ceiling."""
    table = _columns(RATES, "right right right left right left")
    meant = [claim.of for claim in page.claims]
    for one in (each for each in capacities(result) if seen.is_about(each.case, meant)):
        for step in one.steps:
            missed = {goal.figure.partition("_")[0] for goal in one.missed_at(step)}
            told = [formatting.rate(step.per_s), formatting.rate(step.good_per_s(one.in_time_s))]
            for kind in ("response", "ping"):
                wait_s = step.percentile_s(kind, 99)
                told += [_wait(wait_s), f"{_bar(wait_s)}{' ✗' if kind in missed else ''}"]
            table.add_row(*map(Text, told))
        if one.ceiling_per_s:
            table.add_row(Text(f"{formatting.rate(one.ceiling_per_s)}"), Text("the ceiling", style="dim"))
    return table


def _wait(wait_s: float | None) -> str:
    return "?" if wait_s is None else "never" if wait_s == math.inf else formatting.seconds(wait_s)


def _bar(wait_s: float | None) -> str:
    """Two blocks for each factor of ten."""
    if wait_s is None:
        return ""
    decades = math.log10(min(max(wait_s, _SHORTEST_S), _LONGEST_S) / _SHORTEST_S)
    return "█" * max(1, round(2 * decades))


def _columns(headings: Sequence[str], justified: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for place, (heading, justify) in enumerate(zip(headings, justified.split(), strict=True)):
        table.add_column(heading, justify=justify, no_wrap=place > 0)  # type: ignore[arg-type]
    return table


def cells(page: Page, seen: ResultView) -> Iterator[tuple[str, list[str]]]:
    """For each case its name and its figures."""
    shown = _shown(page, seen)
    cases = cases_of(shown)
    for summary in shown:
        who = " ".join([summary.server, *(str(value) for _, value in summary.case.values)])
        plain = _numbered(summary.server, summary.title)
        differing = in_words(summary.case, varying(cases))
        amounts = [seen.amount(what, who) for what in page.columns]
        told = [
            "failed" if summary.verdict == FAILED else amount.text.replace("more than ", "> ") + _margin(amount, what)
            for what, amount in zip(page.columns, amounts, strict=True)
        ]
        yield f"{plain}, {differing}" if differing else plain, told


def _numbered(server: str, title: str) -> str:
    """`4 process pool`: the question has the number, the picture has the words."""
    plain, number = in_plain_words(server, title), server.split("_")[0]
    return f"{number} {plain}" if number.isdecimal() and plain != server else server.rpartition("/")[2]


def _margin(amount: Amount, what: str) -> str:
    """Of a rate, unless it is larger than that."""
    if what != "rate" or amount.value is None or amount.low is None or amount.high is None:
        return ""
    half = (amount.high - amount.low) / 2
    return f" ± {formatting.margin(half)}" if half < amount.value else ""


def failures(page: Page, seen: ResultView) -> list[str]:
    """Why there are no figures of some."""
    failed = [one for one in _shown(page, seen) if one.verdict == FAILED and one.reasons]
    return [f"{_numbered(one.server, one.title)} failed: {one.reasons[0].message}" for one in failed]


def _shown(page: Page, seen: ResultView) -> list[Summary]:
    """The cases of the table."""
    meant = [who for claim in page.claims for who in (claim.of, claim.against)]
    return [one for one in seen.comparison.cases if page.run is None or seen.is_about(one.case, meant)]


def legend(page: Page) -> list[str]:
    """What the columns mean."""
    return [f"{COLUMNS[what][0]}: {COLUMNS[what][1]}" for what in page.columns]


def _table(page: Page, seen: ResultView) -> Table:
    headings = ["server", *(COLUMNS[what][0] for what in page.columns)]
    table = _columns(headings, f"left {'right ' * len(page.columns)}")
    for name, texts in cells(page, seen):
        table.add_row(Text(name), *map(Text, texts))
    return table


def verdict(page: Page, predicted: str, found: Found) -> str:
    """Return whether the prediction was right."""
    if found.undecided:
        said = f"You said {predicted}. This run does not decide whether that is right; usually it is {page.usual}."
    elif not found.right:
        said = f"You said {predicted}. None of the answers fits what was measured; usually it is {page.usual}."
    elif found.right == predicted:
        said = f"You said {predicted}, and that is right."
    else:
        said = f"You said {predicted}; it is {found.right}: {' '.join(page.right(found.right).text.split())}"
    if found.right and found.right != page.usual:
        said += f" On most machines it is {page.usual}: {' '.join(page.right(page.usual).text.split())}"
    return said


def explained(page: Page, found: Found) -> list[str]:
    """Return a line with a mark for each claim that is a sentence, and the explanation."""
    told = [f"{MARKS.get(outcome, '?')} {sentence}" for outcome, sentence in found.sentences]
    return [*told, *filter(None, [" ".join(found.reasons), why(page, found)])]


def why(page: Page, found: Found) -> str:
    """The reason, with a word before it where what was measured is something else."""
    if not page.why or found.right == page.usual:
        return _flat(page.why)
    return f"Why it is {page.usual} on most machines: {_flat(page.why)}"


def as_elsewhere(step: Step, page: Page) -> Result | None:
    """The traces of these servers on a quieter machine, for those who could see little; None if there are none."""
    if page.run is None or not page.run.requests:
        return None
    own = committed(step, page)
    result = load(own) if own.exists() else None
    if result is None or not result.traces:
        result = load(ROOT / TRACES)
    numbers_of = {name.partition("_")[0] for name in page.run.servers}
    result.traces = [
        one
        for one in result.traces
        if one.server.partition("_")[0] in numbers_of and one.case.task in (None, *page.run.tasks)
    ]
    result.left_out = []
    return result if result.traces else None


def elsewhere(step: Step, page: Page) -> str:
    """What a quieter machine had to say of it; empty where that was not measured."""
    path = committed(step, page)
    if page.run is None or not path.exists():
        return ""
    result = load(path)
    told = [sentence for outcome, sentence in found_in(page, ResultView(result)).sentences if outcome == HOLDS]
    users = {one.users for one in result.records}
    crowd = f" and {users.pop()} users" if len(users) == 1 else ""
    where = f"On a quieter machine with {result.environment.usable_cpus} CPUs{crowd} ({path.relative_to(ROOT)}):"
    return " ".join([where, *told])


def in_code(several: Sequence[Code]) -> str:
    """The lines that matter, each with its file, and what is to be seen there."""
    told = []
    for one in several:
        told.append(paragraph(f"{one.file}: {one.says}" if one.says else one.file, "  "))
        for line in lines_of(one).splitlines():
            told += textwrap.wrap(line, WIDTH - 2, initial_indent="    ", subsequent_indent="        ")
    return "\n".join(told)


def overview(steps: Sequence[Step], notebook: Notebook) -> str:
    """A line for each step: whether it is done, and what was predicted."""
    lines = []
    for step in steps:
        done = notebook.done.get(step.name)
        usual = "".join(page.usual for page in step.pages)
        told = f"you said {done.predicted}, {_came(done.right, usual)}" if done else ""
        lines.append(f"{step.number:2}  {'done' if done else '':4}  {step.title:<30}  {told}".rstrip())
    return "\n".join(lines)


def _came(right: str, usual: str) -> str:
    return f"it was {right}" if "?" not in right else f"usually {usual}"
