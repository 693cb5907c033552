"""What a step says on a terminal: the question, then what was seen, in lines of 80 columns at the most."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from common.lesson.amount import Amount
from common.lesson.claims import HOLDS, NOT_HERE, Found, found_in
from common.lesson.figures import Seen
from common.lesson.notebook import Notebook
from common.lesson.step import ROOT, Code, Page, Step, committed, lines_of
from common.model.record import Result, load
from common.report import numbers
from common.report.dresses import capacity_dresses, drill_dresses
from common.report.dresses.timeline_text import TimelinesAsText
from common.report.judging.verdict import FAILED
from common.report.words.naming import cases_of, in_plain_words, in_words, varying, with_name

WIDTH = 80
MARKS = {HOLDS: "✓", NOT_HERE: "✗"}  # and a question mark where it can't be told
# What a column of the table is called, by the figure that is in it, and what that means in a few words.
COLUMNS = {
    "rate": ("answers/s", "right answers per second; ±: so far noise may reach (step 13)"),
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


def pictures(page: Page, result: Result, seen: Seen) -> Iterator[RenderableType]:
    """What there is to look at."""
    if "timeline" in page.show and result.traces:
        yield TimelinesAsText(result)
    if "table" in page.show and result.incidents:
        yield drill_dresses.as_table(result)
    elif "table" in page.show and result.steps:
        yield _rates(result)
    elif "table" in page.show and result.records:
        yield Group(_table(page, seen), Text("\n".join(legend(page)), style="dim"))


def _rates(result: Result) -> Table:
    """What became of each rate that was offered."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for heading in ("arrivals/s", "in time/s", "longest waits (p99)", "longest pings (p99)", "promises missed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case in capacity_dresses.as_data(result):
        for one in case["steps"]:
            rates = [numbers.rate(one[name]) for name in ("offered_per_s", "good_per_s")]
            waits = ["lost" if one[name] is None else numbers.seconds(one[name]) for name in ("p99_s", "ping_p99_s")]
            table.add_row(*map(Text, [*rates, *waits, ", ".join(one["missed"])]))
    return table


def cells(page: Page, seen: Seen) -> Iterator[tuple[str, list[str]]]:
    """For each case its name and its figures."""
    meant = [who for claim in page.claims for who in (claim.of, claim.against)]
    everything = seen.comparison.cases
    shown = [one for one in everything if page.run is None or seen.is_about(one.case, meant)]
    cases = cases_of(shown)
    for summary in shown:
        who = " ".join([summary.server, *(str(value) for _, value in summary.case.values)])
        plain = with_name(in_plain_words(summary.server, summary.title), summary.server, is_narrow=True)
        differing = in_words(summary.case, varying(cases))
        amounts = [seen.amount(what, who) for what in page.columns]
        told = [
            "failed" if summary.verdict == FAILED else amount.text + _margin(amount, what)
            for what, amount in zip(page.columns, amounts, strict=True)
        ]
        yield f"{plain}, {differing}" if differing else plain, told


def _margin(amount: Amount, what: str) -> str:
    """Of a rate, unless it is larger than that."""
    if what != "rate" or amount.value is None or amount.low is None or amount.high is None:
        return ""
    half = (amount.high - amount.low) / 2
    return f" ± {numbers.margin(half)}" if half < amount.value else ""


def legend(page: Page) -> list[str]:
    """What the columns mean."""
    return [f"{COLUMNS[what][0]}: {COLUMNS[what][1]}" for what in page.columns]


def _table(page: Page, seen: Seen) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    table.add_column("server", no_wrap=True)
    for what in page.columns:
        table.add_column(COLUMNS[what][0], justify="right", no_wrap=True)
    for name, texts in cells(page, seen):
        table.add_row(Text(name), *map(Text, texts))
    return table


def verdict(page: Page, predicted: str, found: Found) -> str:
    """Whether the prediction held."""
    if found.untold:
        said = f"You said {predicted}. Whether that is right can't be told here; usually {page.usual} is."
    elif not found.right:
        said = f"You said {predicted}. None of the answers fits what was measured; usually {page.usual} does."
    elif found.right == predicted:
        said = f"You said {predicted}, and so it is."
    else:
        said = f"You said {predicted}; it is {found.right}: {' '.join(page.right(found.right).text.split())}"
    if found.right and found.right != page.usual:
        said += f" On most machines it is {page.usual}: {' '.join(page.right(page.usual).text.split())}"
    return said


def explained(page: Page, found: Found) -> list[str]:
    """A line for each claim that is a sentence, with its mark, and why it is so, if it is."""
    told = [f"{MARKS.get(outcome, '?')} {sentence}" for outcome, sentence in found.sentences]
    return [*told, *filter(None, [" ".join(found.reasons), why(page, found)])]


def why(page: Page, found: Found) -> str:
    """The reason, with a word before it where what was measured is something else."""
    if not page.why or found.right == page.usual:
        return _flat(page.why)
    return f"Where it is as usual: {_flat(page.why)}"


def elsewhere(step: Step, page: Page) -> str:
    """What a quieter machine had to say of it; empty where that was not measured."""
    path = committed(step, page)
    if page.run is None or not path.exists():
        return ""
    result = load(path)
    told = [sentence for outcome, sentence in found_in(page, Seen(result)).sentences if outcome == HOLDS]
    where = f"On a quieter machine with {result.environment.usable_cpus} CPUs ({path.relative_to(ROOT)}):"
    return " ".join([where, *told])


def in_code(several: Sequence[Code]) -> str:
    """The lines that matter, each with its file."""
    told = []
    for one in several:
        told += [f"  {one.file}", *(f"    {_cut(line)}" for line in lines_of(one).splitlines())]
    return "\n".join(told)


def _cut(line: str) -> str:
    """No longer than there is room."""
    return line if len(line) <= WIDTH - 5 else f"{line[: WIDTH - 6]}…"


def overview(steps: Sequence[Step], notebook: Notebook) -> str:
    """A line for each step: whether it is done, and what was predicted."""
    lines = []
    for step in steps:
        done = notebook.done.get(step.name)
        told = f"  you said {done.predicted}, it was {done.right}" if done else ""
        lines.append(f"{'✓' if done else ' '} {step.number:2}  {step.title:<58}{told}".rstrip())
    return "\n".join(lines)
