"""Show questions of the lesson, what was measured, and what follows from it: on a terminal and on a page."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from common.errors import BadInputError
from under_siege import formatting
from under_siege.capacity.view import figures as figures_of_capacities
from under_siege.capacity.view import named
from under_siege.drill.view import view as view_of_drill
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED
from under_siege.lesson.claims import HOLDS, NOT_HERE, UNDECIDED, QuestionResult, ResultView, decide_question
from under_siege.lesson.step import LessonProgress, LessonStep, Question, committed_result
from under_siege.paths import INVOCATION, ROOT
from under_siege.record.result import Result, load
from under_siege.run.chart_selection import figures
from under_siege.show.case_names import CaseNames, in_plain_words, in_words, short
from under_siege.show.conditions import facts_of_machine
from under_siege.show.view import Cell, Column, Figure, Note, Paragraph, Row, Table, Tone, View
from under_siege.trace import view as trace_view

TRACES = ROOT / "results/sample.json.gz"  # contains a trace of every strategy with the task primes
MARKS = {HOLDS: "✓", NOT_HERE: "✗", UNDECIDED: "?"}
# The column heading of each metric, and a short explanation.
COLUMNS = {
    "rate": ("responses/s", "correct responses per second; ±: 95 % confidence interval (step 13)"),
    "printed rate": ("responses/s", "as the load tool counts them, correct or not"),
    "p50": ("median wait", "half of the responses took less"),
    "ping p50": ("median ping", "half of the health checks took less"),
    "ping p99": ("ping p99", "99 of 100 health checks took less"),
    "first event p50": ("first event", "half of the streams began within this time"),
    "gap p99": ("gap p99", "99 of 100 events came no later than this after the previous one"),
    "streams at once": ("at once", "how many streams were in progress, on average"),
    "memory": ("memory", "of the server and all its processes"),
}


@dataclass(frozen=True)
class Answered:
    """A question, the user's prediction, and the result that decides it."""

    step: LessonStep
    question: Question
    predicted: str  # a letter
    result: Result | None  # None if its file could not be read
    instead: str = ""  # why a committed result is shown, or why there is none

    @cached_property
    def measured(self) -> ResultView | None:
        return ResultView(self.result) if self.result else None

    @cached_property
    def decision(self) -> QuestionResult:
        if self.measured is None:
            return QuestionResult((), "", undecided=True)
        return decide_question(self.question, self.measured)

    def view(self) -> View:
        """Return the question, what was measured, and what follows from it."""
        return View(
            title_of(self.step, self.question),
            headline=(
                _asked(self.question, self.predicted, self.decision.right),
                Paragraph(
                    verdict(self.question, self.predicted, self.decision),
                    [(MARKS[outcome], sentence) for outcome, sentence in self.decision.sentences],
                    list(filter(None, [self.decision.reasons, why(self.question, self.decision), self.instead])),
                    is_main=True,
                ),
                *(
                    Paragraph(": ".join(filter(None, [code.file, code.says])), code=code.excerpt())
                    for code in self.question.code
                ),
            ),
            tables=list(self._tables()),
            notes=list(dict.fromkeys(self._failures())),
            figures=[replace(figure, section="") for figure in self._figures()],
        )

    def committed(self) -> View | None:
        """Return what a quieter machine measured, or None if this machine decides the question or nothing is known."""
        if self.instead or not self.decision.has_undecided:
            return None
        findings = committed_findings(self.step, self.question)
        traced = committed_traces(self.step, self.question) if "timeline" in self.question.show else None
        drawn = (replace(trace_view.figure(traced), section=""),) if traced else ()
        return View("", headline=(Paragraph(findings),), figures=drawn) if findings else None

    @property
    def _summaries(self) -> list[Summary]:
        if self.measured is None or self.result is None or not self.result.records or "table" not in self.question.show:
            return []
        is_shown = self.question.is_about if self.question.run else (lambda _case: True)
        return [summary for summary in self.measured.comparison.cases if is_shown(summary.case)]

    def _tables(self) -> Iterator[Table]:
        """Yield a table with the question's metrics of each case, or that of a drill."""
        if self.result and self.result.incidents:
            drill = view_of_drill(self.result)
            yield from (replace(table, caption=drill.footnotes) for table in drill.tables)
        if not self._summaries or self.measured is None:
            return
        axes, rows = CaseNames(self._summaries).axes, []
        for summary in self._summaries:
            name = ", ".join(filter(None, [_name(summary), in_words(summary.case, axes)]))
            texts = (_text(self.measured, metric, summary) for metric in self.question.columns)
            rows.append(Row([Cell(name), *map(Cell, texts)]))
        headings = [COLUMNS[metric] for metric in self.question.columns]
        columns = [Column("server", is_text=True), *(Column(heading) for heading, _ in headings)]
        name = f"measured-{self.step.number}-{self.step.questions.index(self.question) + 1}"
        yield Table(name, "Measured", columns, rows, [": ".join(heading) for heading in headings], gap=2)

    def _failures(self) -> Iterator[Note]:
        for summary in self._summaries:
            if summary.verdict == FAILED and summary.reasons:
                yield Note("failed", _name(summary), summary.reasons[0].message, Tone.BAD)

    def _figures(self) -> Iterator[Figure]:
        question, result = self.question, self.result
        if result is None or self.measured is None:
            return
        if result.incidents:
            yield from view_of_drill(result).figures
        elif result.steps:
            for figure in figures_of_capacities(named(self.measured.capacities)):
                yield replace(figure, in_terminal=_capacity_table(question, self.measured))
        else:
            if result.traces and "timeline" in question.show:
                yield replace(trace_view.figure(result), on_page="timeline" in question.pictures)
            others = {*question.pictures} - {"timeline"}
            yield from (each for each in figures(self.measured.comparison) if each.name in others) if others else ()


def asked(step: LessonStep, question: Question) -> View:
    """Return a question and its answers."""
    return View(title_of(step, question), headline=(_asked(question),))


def title_of(step: LessonStep, question: Question) -> str:
    number, count = step.questions.index(question) + 1, len(step.questions)
    return f"{step.number}. {step.title}" + (f" ({number} of {count})" if count > 1 else "")


def _asked(question: Question, predicted: str = "", right: str = "") -> Paragraph:
    """Return the question and its answers, with marks at the prediction and the right answer."""
    marks = {right: "the measured result"}
    marks[predicted] = "your prediction, and the measured result" if predicted == right else "your prediction"
    answers = []
    for letter in question.letters:
        answers.append((letter, question.answer(letter) + (f" ({marks[letter]})" if letter in marks else "")))
    return Paragraph(" ".join(question.text.split()), answers)


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


def _name(summary: Summary) -> str:
    """Return the number and the plain name of the server, such as `4 process pool`."""
    plain = in_plain_words(summary.server, summary.title)
    return f"{short(summary.server)} {plain}" if plain != summary.server else summary.server.rpartition("/")[2]


def _text(measured: ResultView, metric: str, summary: Summary) -> str:
    """Return a metric of a case, and the half-width of its interval if it is a rate."""
    if summary.verdict == FAILED:
        return "failed"
    case = summary.case
    figure = measured.figure(metric, " ".join([case.server, *(str(value) for _, value in case.values)]))
    text = figure.text.replace("more than ", "> ")
    if metric != "rate" or figure.value is None:
        return text
    return formatting.with_margin(text, figure.value, figure.low, figure.high)


CAPACITY_COLUMNS = ("arrivals/s", "in time/s", "p99 wait", "", "p99 ping", "")  # bars have no heading
CAPACITY_LEGEND = (
    "in time: answered within the promised time",
    "p99: 99 of 100 took less; two more blocks: 10 times as long; never: refused or lost",
    "✗: the promise is broken",
)
_SHORTEST_S, _LONGEST_S = 0.001, 10.0  # times that the shortest and the longest bar represent


def _capacity_table(question: Question, measured: ResultView) -> RenderableType:
    """Return a row for each offered rate, with a bar for each waiting time, and a row for the ceiling."""
    table = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for heading in CAPACITY_COLUMNS:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for capacity in (each for each in measured.capacities if question.is_about(each.case)):
        for step in capacity.steps:
            missed = {goal.figure.partition("_")[0] for goal in step.missed}
            cells = [formatting.rate(step.per_s), formatting.rate(step.good_per_s)]
            for kind in ("response", "ping"):
                wait_s = step.value(f"{kind}_p99_s")
                wait = "?"
                if wait_s is not None:
                    wait = "never" if wait_s == math.inf else formatting.seconds(wait_s)
                cells += [wait, f"{_bar(wait_s)}{' ✗' if kind in missed else ''}"]
            table.add_row(*map(Text, cells))
        if capacity.ceiling_per_s:
            table.add_row(Text(formatting.rate(capacity.ceiling_per_s)), Text("the ceiling", style="dim"))
    return Group(table, Text("\n".join(CAPACITY_LEGEND), style="dim"))


def _bar(wait_s: float | None) -> str:
    """Return a logarithmic bar with two blocks for each factor of ten."""
    if wait_s is None:
        return ""
    decades = math.log10(min(max(wait_s, _SHORTEST_S), _LONGEST_S) / _SHORTEST_S)
    return "█" * max(1, round(2 * decades))


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


def page(steps: Sequence[LessonStep], progress: LessonProgress) -> View:
    """Return all completed steps; each explanation of a chart appears once."""
    done = [(step, _answers(step, progress)) for step in steps if step.name in progress.completed]
    undone = [f"{step.number}. {step.title}" for step in steps if step.name not in progress.completed]
    following = f"Not done yet: {', '.join(undone)}. `{INVOCATION} lesson --html FILE` continues with the next step."
    told = set[str]()
    return View(
        "How servers run long tasks",
        headline=(Paragraph(following),) if undone else (),
        parts=tuple(_step(step, answers, told) for step, answers in done),
        facts=tuple(_facts(progress, [each for _, answers in done for each in answers])),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _answers(step: LessonStep, progress: LessonProgress) -> list[Answered]:
    completed, answers = progress.completed[step.name], []
    for question, predicted in zip(step.questions, completed.predicted, strict=False):
        is_own = completed.result and question.run is not None
        path = progress.folder / completed.result if is_own else committed_result(step, question)
        try:
            answers.append(Answered(step, question, predicted, load(path), completed.instead))
        except BadInputError as error:  # for example because the user removed the file
            answers.append(Answered(step, question, predicted, None, str(error)))
    return answers


def _step(step: LessonStep, answers: Sequence[Answered], told: set[str]) -> View:
    count, parts = len(step.questions), []
    for number, each in enumerate(answers, 1):
        title = f"Question {number} of {count}" if count > 1 else ""
        parts += [replace(each.view(), title=title), *filter(None, [each.committed()])]
    parts = [*(_explained_once(part, told) for part in parts), exercise(step)]
    return View(f"{step.number}. {step.title}", parts=parts)


def exercise(step: LessonStep) -> View:
    return View("Exercise", headline=(Paragraph(" ".join(step.exercise.split())),))


def _explained_once(view: View, told: set[str]) -> View:
    """Return the view without the explanations of charts that the reader has been told."""
    shortened = []
    for figure in view.figures:
        sentences = [each for each in re.split(r"(?<=[.?!])\s+", figure.how) if each not in told]
        shortened.append(replace(figure, how=" ".join(sentences)))
        told.update(sentences)
    return replace(view, figures=shortened)


def _facts(progress: LessonProgress, answers: Sequence[Answered]) -> Iterator[tuple[str, str]]:
    yield "raw values", f"{progress.folder}; measured on this machine, unless a step says otherwise"
    yield from [("✓", "the claim holds"), ("✗", "the claim does not hold here"), ("?", "the claim is undecided")]
    own = [each.result.environment for each in answers if each.result and progress.completed[each.step.name].result]
    if own:
        yield from facts_of_machine(own[-1])
