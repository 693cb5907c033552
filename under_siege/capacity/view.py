"""Show capacities: the rate that each server sustains, its steps, and how latency grows with the rate."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from under_siege import formatting
from under_siege.capacity.charts import capacity_chart, latency_chart
from under_siege.capacity.estimate import FAILED, Capacity, capacities_of, exit_code, judged
from under_siege.capacity.step_metrics import OUTCOMES, StepMetrics
from under_siege.formatting import capitalized, listed, significant
from under_siege.judge.goal import Goal
from under_siege.judge.metrics import METRICS, OF_STREAMS
from under_siege.judge.requirement_check import UNDECIDED
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import other_work
from under_siege.record.result import Result, SkippedServer
from under_siege.show.case_names import CaseNames, in_brief, in_words, with_capital
from under_siege.show.columns import with_first_text
from under_siege.show.conditions import began_at, cores, facts, identity, interruption
from under_siege.show.requirement_outcomes import required_as_data, required_table
from under_siege.show.stream_notes import text_note
from under_siege.show.view import Cell, Column, CsvValue, Figure, Medium, Paragraph, Row, Table, Tone, View, finite

NOTED_LATE_S = 0.002  # the conclusion names a delay of the load generator that is longer than this
NOTED_BY_OTHERS = 0.1  # the conclusion names other programs if they used more than this share of all CPUs
MOST_CHARTS = 6  # maximum number of charts, one for each task
_SERVER = Column("server", is_text=True)
NONE = TO = "–"  # noqa: RUF001 (an en dash, as in a table)


class NamedCapacity(NamedTuple):
    """A capacity, and names that distinguish its server from the other servers."""

    capacity: Capacity
    name: str  # such as 4_async_processexecutor
    plain: str  # such as process pool
    brief: str  # such as process pool (4)

    @property
    def at_start(self) -> str:
        """Return the brief name for the start of a sentence."""
        return with_capital(self.brief, self.capacity.case.server)


def view(result: Result) -> View:
    """Return all that `bench.py capacity` shows."""
    several, required, interrupted = named(capacities_of(result)), judged(result), interruption(result)
    requirements = {"requirements": required_as_data(required)} if required else {}
    return View(
        "Capacity",
        [Paragraph(sentence) for sentence in (interrupted,) if sentence]
        + [Paragraph(sentence) for sentence in conclusion(several, result.left_out, is_whole=not interrupted)],
        [_table(several), _table_of_steps(several), required_table(required)],
        footnotes=_footnotes(result, several),
        figures=list(figures(several)),
        data={**identity(result), "cases": [_as_data(each.capacity) for each in several], **requirements},
        csv=_as_csv(several),
        facts=list(facts(result)),
        made_at=began_at(result),
        exit_code=exit_code(result),
    )


def named(capacities: Sequence[Capacity]) -> list[NamedCapacity]:
    """Return each capacity with distinctive names for its server."""
    names = CaseNames(capacities, with_load=True)
    return [NamedCapacity(each, names.name(each.case), names.plain(each), names.brief(each)) for each in capacities]


def conclusion(
    several: Sequence[NamedCapacity], left_out: Sequence[SkippedServer] = (), *, is_whole: bool = True
) -> Iterator[str]:
    """Yield sentences about the best server, about problems of individual servers, and about the measurement.

    Args:
        is_whole: whether the search ran to its end; otherwise, no server is called the best.
    """
    best, others = _best(several)
    if best and is_whole:
        of_ceiling = best.capacity.of_ceiling
        share = f", {formatting.share(of_ceiling)} of the ceiling" if of_ceiling else ""
        goals = " and ".join(dict.fromkeys(goal.text for goal in best.capacity.goals))
        compared = _not_different([other.brief for other in others])
        yield f"With {goals}, {best.brief} {_interval(best.capacity)}{share}{compared}."
    for each in several:
        yield from (f"{each.at_start}{remark}." for remark in _remarks(each.capacity))
    steps = [step for each in several for step in each.capacity.steps]
    late_s = max((step.late_s for step in steps), default=0.0)
    if late_s > NOTED_LATE_S:
        yield (
            f"The load generator was up to {formatting.seconds(late_s)} late (p99 of a step). "
            "Latency includes this delay, because it is measured from when a request was due."
        )
    most = max((other_work(Round(step.record)) for step in steps), default=0.0)
    if most > NOTED_BY_OTHERS:
        yield f"Other programs used up to {formatting.share(most)} of the CPUs during a step: use a quieter machine."
    if wide := [each.brief for each in several if each.capacity.verdict == UNDECIDED and each.capacity.lower_per_s]:
        yield f"The confidence interval is wide for {listed(wide)}: search longer (--time) or on a quieter machine."
    for skipped in left_out:
        yield f"Not tested: {in_brief(skipped.server, skipped.title)}: {skipped.reason}."


def _best(several: Sequence[NamedCapacity]) -> tuple[NamedCapacity | None, list[NamedCapacity]]:
    """Return the highest capacity (None if there is none) and all others whose intervals overlap with its interval."""
    able = [each for each in several if each.capacity.lower_per_s]
    able.sort(key=lambda each: each.capacity.per_s or each.capacity.lower_per_s or 0.0, reverse=True)
    least = able[0].capacity.lower_per_s or 0.0 if able else 0.0
    return next(iter(able), None), [each for each in able[1:] if (each.capacity.upper_per_s or math.inf) >= least]


def _not_different(names: Sequence[str]) -> str:
    return f"; not significantly different: {listed(names)}" if names else ""


def _interval(capacity: Capacity) -> str:
    """Return a phrase such as `sustains 15.2 requests/s (95 % CI 14.1–16.3)`."""  # noqa: RUF002
    lower, upper = capacity.lower_per_s, capacity.upper_per_s
    if capacity.per_s is None or lower is None or upper is None:
        return f"sustains at least {significant(lower or 0.0)} requests/s"
    return f"sustains {significant(capacity.per_s)} requests/s (95 % CI {significant(lower)}{TO}{significant(upper)})"


def _remarks(capacity: Capacity) -> Iterator[str]:
    """Yield remarks about a server, each of which continues a sentence that begins with the server's name."""
    if capacity.verdict == FAILED:
        yield f": search failed: {capacity.failure}"
        return
    if capacity.refusing:
        yield f": {_refusal(capacity.refusing)}"
    elif capacity.is_none:
        first = capacity.steps[0]
        values = [f"{_metric(goal)}: {_text(first, goal.figure, goal.request)}" for goal in first.missed]
        yield f": no rate meets the goals; even at {per_s(first.per_s)}, {' and '.join(values)}"
    elif capacity.lower_per_s is None:
        yield f" misses a goal at {per_s(capacity.upper_per_s)}, and no lower rate was offered"
    elif capacity.upper_per_s is None:
        yield f" meets every goal at every offered rate, up to {per_s(capacity.steps[-1].per_s)}"
    for name in ("limited", "wrong"):
        if step := next((step for step in capacity.steps if step.shares[name]), None):
            yield f": {_share(step.shares[name])} of the requests were {OUTCOMES[name]} at {per_s(step.per_s)}"
    if capacity.limited:
        yield (
            f": at {per_s(capacity.limited.per_s)}, the load generator was the limit and sent requests "
            f"{formatting.seconds(capacity.limited.late_s)} late (p99). This step and higher rates are ignored"
        )


def _refusal(step: StepMetrics) -> str:
    """Return why a server that was idle refused requests, and what this says about its rate."""
    refused = f"{_share(step.shares['refused'])} of the requests were {OUTCOMES['refused']} at {per_s(step.per_s)}"
    if step.record.keep_alive:
        cause = "also counts idle connections, so its highest rate depends on how many connections clients keep open"
    else:
        cause = "determines its highest rate"
    used = formatting.share(step.cpus or 0.0)
    return f"{refused} while it used {used} of a CPU. A limit such as uvicorn's --limit-concurrency {cause}"


def per_s(value: float | None) -> str:
    """Format a rate, such as `41.3/s`, or return a dash if it is None."""
    return NONE if value is None else f"{significant(value)}/s"


def _text(step: StepMetrics | None, key: str, request: str = "") -> str:
    """Format one of `METRICS`; if it is an infinite latency, return the most frequent reason."""
    value = step.value(key, request) if step else None
    if step is None or value is None:
        return NONE
    if math.isinf(value):
        is_ping = METRICS[key].latency == "ping"
        return OUTCOMES["lost" if is_ping else max(OUTCOMES, key=lambda name: step.shares[name])]
    return METRICS[key].unit.text(value)


def _share(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def _metric(goal: Goal) -> str:
    return goal.text.partition(goal.operator)[0].strip()


def _first_missed(capacity: Capacity) -> str:
    """Describe the goal that is missed first, such as `p99: 1.4 s at 20.3/s`."""
    step, goal = capacity.first_missed, capacity.breaks
    if step is None or goal is None:
        return "none"
    return f"{_metric(goal)}: {_text(step, goal.figure, goal.request)} at {per_s(step.per_s)}"


def _sustained(capacity: Capacity) -> str:
    if capacity.per_s:
        return per_s(capacity.per_s)
    return "none" if capacity.is_none else NONE


def _table(several: Sequence[NamedCapacity]) -> Table:
    """Return a row for each server."""
    latencies, rows = _latencies(several), []
    for each in several:
        capacity, step = each.capacity, each.capacity.nearest_step
        texts = [
            _sustained(capacity),
            per_s(capacity.lower_per_s),
            per_s(capacity.upper_per_s),
            formatting.share(capacity.of_ceiling) if capacity.of_ceiling else NONE,
            *(_text(step, key) for key in latencies),
            _first_missed(capacity),
            _text(step, "cpu_s_per_transaction"),
            _text(step, "memory_bytes"),
        ]
        if capacity.failure:
            texts = ["failed", *[""] * (len(texts) - 1)]
        rows.append(Row(list(map(Cell, [each.name, *texts]))))
    names = ["sustained", "lower", "upper", METRICS["of_ceiling"].name, *latencies.values()]
    names += ["first goal missed", "CPU per response", METRICS["memory_bytes"].name]
    return Table("capacity", "Sustained rates", [_SERVER, *map(Column, names)], rows, gap=2)


def _latencies(several: Sequence[NamedCapacity]) -> dict[str, str]:
    """Return the keys and headings of latencies: of streams, those of their events instead of the whole stream."""
    records = [step.record for each in several for step in each.capacity.steps]
    unused = ("response_p99_s",) if any(record.stream for record in records) else OF_STREAMS
    keys = ("response_p99_s", "first_event_p99_s", "gap_p99_s", "ping_p99_s")
    return {key: with_first_text(METRICS[key].name, records) for key in keys if key not in unused}


def _table_of_steps(several: Sequence[NamedCapacity]) -> Table:
    """Return a row for each step, marked if it missed a goal."""
    latencies, rows = _latencies(several), []
    for each in several:
        for index, step in enumerate(each.capacity.steps):
            shares = step.shares.items()
            missed = ", ".join(f"{_share(share)} {OUTCOMES.get(name, name)}" for name, share in shares if share)
            texts = [
                per_s(step.per_s),
                *(_text(step, key) for key in latencies),
                per_s(step.good_per_s),
                missed or NONE,
            ]
            cells = list(map(Cell, ["" if index else each.name, *texts]))
            rows.append(Row(cells, Tone.BAD if step.missed else Tone.PLAIN))
    names = ["offered", *latencies.values(), "goodput", "missed"]
    return Table("steps", "Steps", [_SERVER, *map(Column, names)], rows, gap=2, media=(Medium.TERMINAL,))


def _footnotes(result: Result, several: Sequence[NamedCapacity]) -> list[str]:
    count = sum(len(each.capacity.steps) for each in several)
    places = dict.fromkeys(tuple(step.record.text_events) for each in several for step in each.capacity.steps)
    return [
        *(text_note(each) for each in places if each),
        "sustained: highest rate that meets all goals · lower, upper: its 95 % interval",
        "p99, ping p99, CPU, memory: of the step that met all goals and is nearest to the lower bound",
        "latency counts from when a request was due; it is infinite if the request was refused, lost or answered "
        "wrongly",
        f"Poisson arrivals · {cores(result)} · Python {', '.join(result.environment.pythons)} · "
        f"{formatting.counted(count, 'step')} · seed {result.seed}",
    ]


def figures(several: Sequence[NamedCapacity]) -> Iterator[Figure]:
    """Yield a chart for each task."""
    groups: dict[object, list[NamedCapacity]] = {}
    for each in several:
        if each.capacity.steps:
            groups.setdefault(each.capacity.case.job, []).append(each)
    for group in list(groups.values())[:MOST_CHARTS]:
        case = group[0].capacity.case
        job = in_words(case, [name for name, _ in case.job])
        servers = [(each.capacity, each.brief) for each in group]
        yield Figure(
            "capacity",
            job if len(groups) > 1 else "",
            "Each point is one step with Poisson arrivals at one rate. The knee is where a line bends upwards; the "
            "dashed lines are the goals. The bottom chart shows the goodput: how many responses per second arrived in "
            "time.",
            partial(capacity_chart, servers),
            "Latency by arrival rate. " + " ".join(map(_in_one_sentence, group)),
            headline=_headline(group),
            conditions=job,
            on_slide=partial(latency_chart, servers),
            section="Latency and goodput by rate",
        )


def _headline(several: Sequence[NamedCapacity]) -> str:
    best, others = _best(several)
    if best is None:
        return "No server meets all goals at any offered rate"
    return f"{capitalized(best.plain)} {_interval(best.capacity)}{_not_different([other.plain for other in others])}"


def _in_one_sentence(each: NamedCapacity) -> str:
    remarks = [f" {_interval(each.capacity)}"] if each.capacity.lower_per_s else _remarks(each.capacity)
    return "".join([each.at_start, *remarks, "."])


_FIGURES: dict[str, Callable[[StepMetrics], float | None]] = {
    "offered_per_s": lambda step: step.per_s,
    "p50_s": lambda step: finite(step.value("response_p50_s")),
    "p99_s": lambda step: finite(step.value("response_p99_s")),
    "ping_p50_s": lambda step: finite(step.value("ping_p50_s")),
    "ping_p99_s": lambda step: finite(step.value("ping_p99_s")),
    "good_per_s": lambda step: step.good_per_s,
    "cpu_s_per_transaction": lambda step: step.cpu_s,
    "memory_bytes": lambda step: step.memory_bytes,
}


def _as_csv(several: Sequence[NamedCapacity]) -> tuple[list[str], list[list[CsvValue]]]:
    """Return the headings, and a line for each step of each server."""
    rows: list[list[CsvValue]] = [
        [each.name, *(figure(step) for figure in _FIGURES.values()), "; ".join(_texts(step.missed))]
        for each in several
        for step in each.capacity.steps
    ]
    return ["server", *_FIGURES, "missed"], rows


def _texts(goals: Sequence[Goal]) -> list[str]:
    return [goal.text for goal in goals]


def _reasons(capacity: Capacity) -> Iterator[tuple[str, str]]:
    if capacity.failure:
        yield "failed", capacity.failure
    elif capacity.refusing:
        yield "refused_while_idle", _refusal(capacity.refusing)


def _as_data(capacity: Capacity) -> dict[str, Any]:
    """Return the JSON object of a server and task. Don't rename the keys, because programs read them."""
    nearest = capacity.nearest_step
    return {
        "server": capacity.case.server,
        "title": capacity.title,
        "task": capacity.case.task,
        "workers": next((step.record.workers for step in capacity.steps if step.record.workers), None),
        "python": capacity.case.python,
        "parameters": capacity.case.parameters,
        "verdict": capacity.verdict,
        "reasons": [{"code": code, "message": message} for code, message in _reasons(capacity)],
        "capacity_per_s": {"holds": capacity.lower_per_s, "fails": capacity.upper_per_s},
        "estimate_per_s": capacity.per_s,
        "saturation_per_s": capacity.saturation_per_s,
        "goals": _texts(capacity.goals),
        "breaks_first": capacity.breaks.text if capacity.breaks else None,
        "ceiling_per_s": capacity.ceiling_per_s,
        "of_ceiling": capacity.of_ceiling,
        "response_s": {"p99": finite(nearest.value("response_p99_s")) if nearest else None},
        "ping_s": {"p99": finite(nearest.value("ping_p99_s")) if nearest else None},
        "cpu_s_per_transaction": nearest.cpu_s if nearest else None,
        "memory_bytes": nearest.memory_bytes if nearest else None,
        "steps": [
            {
                **{name: figure(step) for name, figure in _FIGURES.items()},
                "requests": len(step.waits_s),
                "shares": step.shares,
                "missed": _texts(step.missed),
            }
            for step in capacity.steps
        ],
    }
