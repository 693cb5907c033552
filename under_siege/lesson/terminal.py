"""Format a step of the lesson for a terminal with 80 columns: the question, charts, tables and the answer."""

import math
import textwrap
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.drill import drill_report
from under_siege.judge.case_names import cases_of, in_plain_words, in_words, varying
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED
from under_siege.lesson.claims import HOLDS, NOT_HERE, QuestionResult, ResultView, decide_question
from under_siege.lesson.step import LessonStep, Question, committed_result
from under_siege.paths import ROOT
from under_siege.record.case import Case
from under_siege.record.record import Result, load
from under_siege.show.formats.table import renderable
from under_siege.trace import view as trace_view

WIDTH = 80
TRACES = ROOT / "results/sample.json"  # contains a trace of every strategy with the task primes
MARKS = {HOLDS: "✓", NOT_HERE: "✗"}  # undecided claims get `?`
# The column heading of each metric, and a short explanation.
COLUMNS = {
    "rate": ("responses/s", "correct responses per second; ±: 95 % confidence interval (step 13)"),
    "printed rate": ("responses/s", "as the load tool counts them, correct or not"),
    "p50": ("median wait", "half of the responses took less"),
    "ping p50": ("median ping", "half of the health checks took less"),
    "ping p99": ("ping p99", "99 of 100 health checks took less"),
    "memory": ("memory", "of the server and all its processes"),
}


def lesson_console() -> Console:
    console = Console()
    return Console(width=min(WIDTH, console.width) if console.is_terminal else WIDTH, highlight=False)


def paragraph(text: str, indent: str = "") -> str:
    """Wrap the text into lines; keep empty lines, which separate paragraphs."""
    paragraphs = (" ".join(each.split()) for each in text.strip().split("\n\n"))
    return "\n\n".join(_filled(each, indent, indent) for each in paragraphs)


def _filled(text: str, first: str, other: str) -> str:
    return textwrap.fill(text, WIDTH - 2, initial_indent=first, subsequent_indent=other)


def question_text(step: LessonStep, question: Question, number: int) -> str:
    """Return the title, the question and its answers; a test limits them to 12 lines."""
    count = f" ({number} of {len(step.questions)})" if len(step.questions) > 1 else ""
    answers = (_filled(question.answer(letter), f"  {letter}  ", "     ") for letter in question.letters)
    return "\n".join([f"{step.number}. {step.title}{count}", paragraph(question.text), *answers])


def charts_and_tables(question: Question, result: Result, view: ResultView) -> Iterator[RenderableType]:
    if "timeline" in question.show and result.traces:
        yield renderable(trace_view.view(result))
    if "table" not in question.show:
        return
    if result.incidents:
        yield drill_report.as_table(result)
    elif result.steps:
        yield Group(_capacity_table(question, view), Text("\n".join(CAPACITY_LEGEND), style="dim"))
    elif result.records:
        failed = [each for each in _summaries(question, view) if each.verdict == FAILED and each.reasons]
        failures = [f"{_name(summary)} failed: {summary.reasons[0].message}" for summary in failed]
        notes = map(paragraph, [*failures, *legend(question)])
        table = _table(["server", *headings(question)], ["left", *("right" for _ in question.columns)])
        for name, texts in rows(question, view):
            table.add_row(Text(name), *map(Text, texts))
        yield Group(table, Text("\n".join(notes), style="dim"))


CAPACITY_COLUMNS = ("arrivals/s", "in time/s", "p99 wait", "", "p99 ping", "")
CAPACITY_LEGEND = (
    "in time: answered within the promised time",
    "p99: 99 of 100 took less; two more blocks: 10 times as long; never: refused or lost",
    "✗: the promise is broken",
)
_SHORTEST_S, _LONGEST_S = 0.001, 10.0  # times that the shortest and the longest bar represent


def _capacity_table(question: Question, view: ResultView) -> Table:
    """Return a table with a row for each offered rate and a row for the ceiling. Bars show waiting times."""
    table = _table(CAPACITY_COLUMNS, ["right", "right", "right", "left", "right", "left"])
    for capacity in (each for each in view.capacities if question.is_about(each.case)):
        for step in capacity.steps:
            missed = {goal.figure.partition("_")[0] for goal in capacity.missed_at(step)}
            cells = [formatting.rate(step.per_s), formatting.rate(step.good_per_s(capacity.in_time_s))]
            for kind in ("response", "ping"):
                wait_s = step.percentile_s(kind, 99)
                wait = "?" if wait_s is None else "never" if wait_s == math.inf else formatting.seconds(wait_s)
                cells += [wait, f"{_bar(wait_s)}{' ✗' if kind in missed else ''}"]
            table.add_row(*map(Text, cells))
        if capacity.ceiling_per_s:
            table.add_row(Text(formatting.rate(capacity.ceiling_per_s)), Text("the ceiling", style="dim"))
    return table


def _bar(wait_s: float | None) -> str:
    """Return a logarithmic bar with two blocks for each factor of ten."""
    if wait_s is None:
        return ""
    decades = math.log10(min(max(wait_s, _SHORTEST_S), _LONGEST_S) / _SHORTEST_S)
    return "█" * max(1, round(2 * decades))


def _table(titles: Sequence[str], alignments: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for index, (title, alignment) in enumerate(zip(titles, alignments, strict=True)):
        table.add_column(title, justify=alignment, no_wrap=index > 0)  # type: ignore[arg-type]
    return table


def headings(question: Question) -> list[str]:
    return [COLUMNS[metric][0] for metric in question.columns]


def legend(question: Question) -> list[str]:
    return [": ".join(COLUMNS[metric]) for metric in question.columns]


def rows(question: Question, view: ResultView) -> Iterator[tuple[str, list[str]]]:
    summaries = _summaries(question, view)
    axes = varying(cases_of(summaries))
    for summary in summaries:
        name = ", ".join(filter(None, [_name(summary), in_words(summary.case, axes)]))
        is_failed = summary.verdict == FAILED
        yield name, ["failed" if is_failed else _cell(view, metric, summary.case) for metric in question.columns]


def _cell(view: ResultView, metric: str, case: Case) -> str:
    figure = view.figure(metric, " ".join([case.server, *(str(value) for _, value in case.values)]))
    text = figure.text.replace("more than ", "> ")
    if metric != "rate" or figure.value is None or figure.low is None or figure.high is None:
        return text
    margin = (figure.high - figure.low) / 2
    return f"{text} ± {formatting.margin(margin)}" if margin < figure.value else text


def _name(summary: Summary) -> str:
    """Return the number and the plain name of the server, such as `4 process pool`."""
    plain, number = in_plain_words(summary.server, summary.title), summary.server.split("_")[0]
    is_strategy = number.isdecimal() and plain != summary.server
    return f"{number} {plain}" if is_strategy else summary.server.rpartition("/")[2]


def _summaries(question: Question, view: ResultView) -> list[Summary]:
    return [each for each in view.comparison.cases if question.run is None or question.is_about(each.case)]


def verdict(question: Question, predicted: str, decision: QuestionResult) -> str:
    if decision.undecided:
        text = f"You said {predicted}. This run does not decide whether that is right; usually {question.usual} is."
    elif not decision.right:
        text = f"You said {predicted}. None of the answers fits the measurement; usually {question.usual} is right."
    elif decision.right == predicted:
        text = f"You said {predicted}, and that is right."
    else:
        text = f"You said {predicted}; it is {decision.right}: {question.answer(decision.right)}"
    if decision.right and decision.right != question.usual:
        text += f" On most machines it is {question.usual}: {question.answer(question.usual)}"
    return text


def why(question: Question, decision: QuestionResult) -> str:
    text = " ".join(question.why.split())
    is_usual = not text or decision.right == question.usual
    return text if is_usual else f"Why it is {question.usual} on most machines: {text}"


def committed_traces(step: LessonStep, question: Question) -> Result | None:
    """Return a committed result with traces of the question's servers, or None if there are no such traces."""
    if question.run is None or not question.run.requests:
        return None
    path = committed_result(step, question)
    result = load(path) if path.exists() else None
    if result is None or not result.traces:
        result = load(TRACES)
    numbers, tasks = {name.partition("_")[0] for name in question.run.servers}, (None, *question.run.tasks)
    result.traces = [
        each for each in result.traces if each.server.partition("_")[0] in numbers and each.case.task in tasks
    ]
    result.left_out = []
    return result if result.traces else None


def committed_findings(step: LessonStep, question: Question) -> str:
    """Return sentences about the claims that hold in the committed result; return an empty string if it is missing."""
    path = committed_result(step, question)
    if question.run is None or not path.exists():
        return ""
    result = load(path)
    sentences = [text for outcome, text in decide_question(question, ResultView(result)).sentences if outcome == HOLDS]
    users = {record.users for record in result.records}
    crowd = f" and {users.pop()} users" if len(users) == 1 else ""
    cpus = result.environment.usable_cpus
    return " ".join([f"On a quieter machine with {cpus} CPUs{crowd} ({path.relative_to(ROOT)}):", *sentences])


def code_text(question: Question) -> str:
    """Return the question's code excerpts, each below its file name and a note."""
    lines = []
    for code in question.code:
        lines.append(paragraph(": ".join(filter(None, [code.file, code.says])), "  "))
        lines += [_filled(line, "    ", "        ") for line in code.excerpt().splitlines()]
    return "\n".join(lines)
