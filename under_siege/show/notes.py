"""Write the text below the table of a comparison: flags, notes, and the footnote with the conditions."""

from collections.abc import Iterator, Sequence

import numpy as np

from under_siege import formatting
from under_siege.judge.ranking import Comparison
from under_siege.judge.round_statistics import Round, leak_bytes
from under_siege.judge.server_processes import workers_replaced
from under_siege.judge.speed_correction import other_work, stolen
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, verdict_of
from under_siege.load import DRIVERS
from under_siege.load.content_encoding import BROWSERS
from under_siege.load.request import FREQUENT_S
from under_siege.record.result import Result
from under_siege.show.case_names import CaseNames
from under_siege.show.columns import NO_SERVER, columns_for, name_in_table
from under_siege.show.conditions import cores, in_common, rounds_of
from under_siege.show.process_notes import sentences_on, unset_number
from under_siege.show.stream_notes import notes_on_streams
from under_siege.show.view import STAR


def flags(summaries: Sequence[Summary], cases: Sequence[Summary]) -> Iterator[tuple[str, list[str], str]]:
    """Yield each distinct reason as its verdict, the names of the cases that it applies to, and its message."""
    named = CaseNames(cases)
    about: dict[tuple[str, str], list[str]] = {}
    for summary in summaries:
        for reason in summary.reasons:
            name = named.full(summary.case)
            if summary.server == NO_SERVER:
                name = name.replace(NO_SERVER, name_in_table(summary, [summary]), 1)
            about.setdefault((verdict_of([reason]), reason.message), []).append(name)
    for (verdict, message), names in about.items():
        yield verdict, names, message


CHANGED = 1.25  # a note is shown if the highest CPU speed is more than this multiple of the lowest
NOTEWORTHY = 0.03  # a note is shown if a disturbance takes more than this share of CPU time
THROTTLED_PCT = 10.0  # a note is shown if a server used up its CPU quota in more than this share of periods
LATE_S = 0.010  # a note is shown if 1 % of pings are sent more than this late: they measure the bench, not the server
FEW_PINGS = 50  # fewer pings are too few for a p99
SLOW_ALONE_S, MUCH_SLOWER_ALONE = 0.1, 10.0  # a note is shown if a single ping takes this long, relative to the p99
WARMING = 1.4  # a note is shown if the first responses use more than this multiple of the CPU time of later ones


def notes(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield each note as its subject, such as a server or `machine`, and its text."""
    result = comparison.result
    several = len({*(absent.python for absent in result.left_out), *(case.python for case in comparison.cases)}) > 1
    alike: dict[tuple[str, str], list[str]] = {}
    for absent in result.left_out:
        alike.setdefault((absent.python, absent.reason), []).append(absent.server)
    for (python, reason), servers in alike.items():
        it = "each" if len(servers) > 1 else "it"
        yield ", ".join(servers), f"not run{f' under Python {python}' if several else ''}: {it} {reason}"
    if result.tool_choice:
        yield "load tool", result.tool_choice
    if result.users_choice:
        yield "users", result.users_choice
    yield from _of_the_suite(comparison)
    yield from _of_ceilings(comparison)
    yield from _of_requests(comparison)
    yield from _of_connections(comparison)
    yield from _of_cookies(comparison)
    if any(case.has_streams for case in comparison.cases):
        yield from notes_on_streams(comparison)
    else:
        yield from _of_encodings(comparison)
    yield from _of_processes(comparison)
    yield from _of_warm_ups(comparison)
    yield from _of_the_gil(comparison)
    yield from _of_quotas(comparison)
    yield from _of_memory(comparison)
    yield from _of_late_pings(comparison)
    yield from _of_lone_pings(comparison)
    yield from _of_the_machine(comparison)


def _of_the_suite(comparison: Comparison) -> Iterator[tuple[str, str]]:
    result = comparison.result
    if result.suite is None or not comparison.cases:
        return
    yield from (("environment", choice) for choice in result.suite.choices)
    if checked := result.suite.checked:
        yield "answers", checked
    if not any(record.has_ceiling for record in result.records):
        yield "ceiling", "no ceiling was measured, so an impossibly high rate would go unnoticed"
    if not result.suite.ping:
        yield (
            "pings",
            "not sent, so health-check latency under load is unknown; set ping.path in the suite, or use --ping",
        )


def _of_ceilings(comparison: Comparison) -> Iterator[tuple[str, str]]:
    for ceiling in comparison.ceilings:
        if ceiling.verdict == FAILED:
            yield (
                name_in_table(ceiling, comparison.ceilings),
                f"the ceiling could not be measured: {ceiling.reasons[0].message}",
            )


def _of_requests(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each load tool that does not tell the requests of a mix, or those that were lost, apart."""
    silent = [case for case in comparison.cases if case.transactions and not case.requests]
    records = [
        rounds[0].record for case, rounds in zip(comparison.cases, comparison.rounds, strict=True) if case in silent
    ]
    for tool in dict.fromkeys(record.tool for record in records if record.mix):
        yield "requests", f"{tool} reports only totals of all requests; siege, locust and client report each request"
    records = [run.record for rounds in comparison.rounds for run in rounds]
    for tool in dict.fromkeys(record.tool for record in records if record.mix and record.unlisted_losses):
        why = f"{tool} does not say which requests were not answered, so the availability of each is unknown"
        yield "requests", f'{why}; set tool = "client" or tool = "locust"'


def _of_connections(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each server that closed every connection despite keep-alive; load tools don't warn of this."""
    reported = set()
    for rounds in comparison.rounds:
        asked = [run.record for run in rounds if run.record.keep_alive and run.completed]
        kept = [count for record in asked for count in record.bursts.kept_alive]
        if kept and not any(kept) and None not in kept and asked[0].server not in reported:
            reported.add(asked[0].server)
            yield (
                asked[0].server,
                f"{asked[0].tool} was set to keep connections alive, but the server closed each one, so the rate "
                "includes the cost of a new connection for every request",
            )


def _of_cookies(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each server that sets cookies, because not every load tool returns them."""
    records = [rounds[0].record for rounds in comparison.rounds if rounds[0].record.sets_cookies]
    for server, tool in dict.fromkeys((record.server, record.tool) for record in records):
        if tool in DRIVERS and DRIVERS[tool].returns_cookies:
            yield server, f"sets cookies; each user of {tool} returned them, which users of ab and wrk don't"
        else:
            yield server, f"sets cookies; users of {tool} don't return them, but users of siege and locust do"


def _of_encodings(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on the servers whose responses to browsers have another encoding than those to the load."""
    alike: dict[tuple[str, str], dict[str, None]] = {}
    for run in comparison.every_round():
        sent, browsers = run.record.content_encoding, run.record.browser_encoding
        if browsers is not None and browsers != sent and not run.record.is_ceiling:
            alike.setdefault((sent, browsers), {})[run.record.server] = None
    for (sent, browsers), servers in alike.items():
        yield (
            ", ".join(servers),
            f"browsers get responses {_encoded(browsers)}, but this load got them {_encoded(sent)}, at another cost of "
            f'CPU time; to load a server as browsers do, send the header "Accept-Encoding: {BROWSERS}"',
        )


def _encoded(encoding: str) -> str:
    return f"encoded with {encoding}" if encoding else "uncompressed"


def _of_processes(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield notes on the processes that explain figures, on replaced workers, and on unknown processes."""
    names = CaseNames(comparison.cases)
    for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
        name = names.full(case.case)
        yield from ((name, text) for text in (*sentences_on(rounds), *unset_number(rounds)))
        if replaced := sum(len(workers_replaced(run)) or run.record.workers_replaced for run in rounds):
            were = "worker was" if replaced == 1 else "workers were"
            lost = sum(run.lost for run in rounds)
            requests = f"{lost:,} requests" if lost > 1 else "1 request" if lost else "no request"
            limit = "look for a limit, such as max_requests, a timeout or the memory"
            yield name, f"{replaced} {were} replaced under load, and {requests} got no response; {limit}"
        if any(run.record.listens_elsewhere for run in rounds):
            unseen = "the server's processes are on another machine, or are not visible here"
            yield name, f"{unseen}, so CPU time and memory are unknown"


def _of_warm_ups(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each server whose first responses used much more CPU time than later ones."""
    reported = set()
    for rounds in comparison.rounds:
        server = rounds[0].record.server
        costs = [
            (first, rest) for run in rounds if (first := _first_cost_s(run)) and (rest := run.cpu_s_per_transaction())
        ]
        factors = sorted(first / rest for first, rest in costs)
        if factors and factors[len(factors) // 2] > WARMING and server not in reported:
            reported.add(server)
            first_s, rest_s = max(costs, key=lambda cost: cost[0])
            yield (
                server,
                f"its first {rounds[0].record.warm_up_answers:,} responses used {formatting.seconds(first_s)} "
                f"of CPU each, later ones {formatting.seconds(rest_s)}; the warm-up is not part of the measurement",
            )


def _first_cost_s(run: Round) -> float | None:
    record = run.record
    return record.warm_up_cpu_s / record.warm_up_answers if record.warm_up_cpu_s and record.warm_up_answers else None


def _of_quotas(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on the servers that were often throttled, and on a quota that the load tool shares."""
    names = CaseNames(comparison.cases)
    throttled = [case for case in comparison.cases if (case.throttled_pct or 0.0) > THROTTLED_PCT]
    if throttled:
        most = max(case.throttled_pct or 0.0 for case in throttled)
        yield (
            ", ".join(names.full(case.case) for case in throttled),
            f"used up the CPU quota in up to {most:.0f} % of the 100 ms periods, and paused until the next period, "
            "which delays every request, including health checks",
        )
    if quota := next(filter(None, (run.quota_of_the_bench for run in comparison.every_round())), None):
        cpus = "CPUs" if quota > 1 else "CPU"
        yield "quota", f"the servers share a quota of {quota:g} {cpus} with the load tool and the bench"


def _of_the_gil(comparison: Comparison) -> Iterator[tuple[str, str]]:
    reported = set()
    for case in comparison.cases:
        if case.gil and "t" in case.python.split()[0] and (case.server, case.python) not in reported:
            reported.add((case.server, case.python))
            module = f"the extension module {case.gil_enabled_by}" if case.gil_enabled_by else "an extension module"
            yield (
                case.server,
                f"{module} enabled the GIL, although Python {case.python} is free-threaded",
            )


def _of_the_machine(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield notes on varying CPU speed, and on CPU time lost to noisy neighbours or other programs."""
    everything = [case for case in (*comparison.ceilings, *comparison.cases) if case.speed is not None]
    changed = [case.speed for case in everything if case.speed and case.speed.highest > CHANGED * case.speed.lowest]
    if changed:
        factor = formatting.significant(max(speed.highest / speed.lowest for speed in changed), 2)
        yield (
            "machine",
            f"CPU speed varied by up to {factor}× in {len(changed)} of {len(everything)} cases "
            "(noisy neighbour or thermal throttling)",
        )
    rounds = comparison.every_round()
    for share_of, cause in ((stolen, "noisy neighbours took"), (other_work, "other programs used")):
        shares = [share for run in rounds if (share := share_of(run)) > NOTEWORTHY]
        if shares:
            yield (
                "machine",
                f"{cause} up to {formatting.share(max(shares))} of CPU time in {len(shares)} of {len(rounds)} rounds",
            )


def _of_late_pings(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each server whose pings the bench itself sent late."""
    for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
        late_s = _late_s(rounds)
        p99_s = case.ping_s.p99 if case.ping_s else None
        if p99_s is not None and late_s > LATE_S and late_s > p99_s / 2:
            yield (
                case.server,
                f"the bench sent 1 % of pings at least {formatting.seconds(late_s)} late; latencies include this delay",
            )


def _of_lone_pings(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each server with few pings, or with a single ping that takes much longer than frequent ones."""
    for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
        count = sum(len(run.ping_rows) for run in rounds)
        if 0 < count < min(FEW_PINGS, sum(run.load_s for run in rounds) / FREQUENT_S):
            yield case.server, f"only {count} pings were sent, so p99 is the longest of them"
        alone_s = [wait_s for run in rounds for wait_s in run.lone_pings.waited_s]
        p99_s = case.ping_s.p99 if case.ping_s else None
        if alone_s and p99_s is not None and np.median(alone_s) > max(SLOW_ALONE_S, MUCH_SLOWER_ALONE * p99_s):
            yield (
                case.server,
                f"a single ping after a pause took {formatting.seconds(float(np.median(alone_s)))}, but frequent "
                f"pings {formatting.seconds(p99_s)} (p99); the health checks of a load balancer are rare, too: "
                'measure them with ping.every = "5s" in a suite',
            )


def _of_memory(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield a note on each case whose memory grows with every request."""
    names = CaseNames(comparison.cases)
    for case, rounds in zip(comparison.cases, comparison.rounds, strict=True):
        if (each_bytes := leak_bytes(rounds)) is not None:
            yield (
                names.full(case.case),
                f"memory grew steadily, by {formatting.significant(each_bytes / 1000, 2)} MB per 1,000 requests: "
                "a leak, or work that piles up",
            )


def _late_s(rounds: Sequence[Round]) -> float:
    """Return the 99th percentile of the delays with which the bench sent pings, or 0 if it sent none."""
    pings = [run.ping_rows for run in rounds]
    delays_s = np.concatenate([each.sent_s - each.due_s for each in pings])
    return float(np.percentile(delays_s, 99)) if len(delays_s) else 0.0


def footnote(comparison: Comparison) -> list[str]:
    """Return lines that explain how to read the figures, and a last line with the conditions of the measurement."""
    result, records = comparison.result, comparison.result.records
    if not records:
        return []
    kinds = {kind for record in records for kind in record.memory_kind.split("+") if kind}
    shown = [*comparison.cases, *comparison.ceilings]
    conditions = [
        *([result.suite.source, result.suite.request] if result.suite else []),
        *in_common(comparison.cases or comparison.ceilings),
        rounds_of(shown, records),
        cores(result),
        f"memory: {'+'.join(sorted(kinds)).upper()}" if kinds else "",
    ]
    starred = any(summary.best for summary in comparison.cases)
    star = f"{STAR} not significantly worse than the best in its column" if starred else ""
    rounds = [summary.rounds for summary in shown]
    how_to_read = " · ".join(filter(None, [star, "± 95 % confidence interval"]))
    rows = " · ".join(filter(None, [_order(comparison.cases), _lower_bounds(shown)]))
    assumptions = "; ".join(filter(None, [_adjustment(comparison), _of_single_rounds(rounds), _of_drains(comparison)]))
    return [*filter(None, [how_to_read, rows, assumptions]), " · ".join(filter(None, conditions))]


def _order(cases: Sequence[Summary]) -> str:
    """Return how the rows of the table are sorted, or an empty string for a matrix or fewer than two cases."""
    if len(cases) < 2 or CaseNames(cases).across:
        return ""
    if not any(case.rank for case in cases):
        return "sorted by throughput"
    return "sorted by rank, then by ping p99" if any(case.ping_s for case in cases) else "sorted by rank"


def _lower_bounds(shown: Sequence[Summary]) -> str:
    """Return the meaning of `>`, or an empty string if no cell shows a lower bound."""
    columns = columns_for(shown)
    if not any(column.cell(summary).text.startswith(">") for column in columns for summary in shown):
        return ""
    return "> lower bound: too many requests were unanswered at the end"


def _of_single_rounds(rounds: Sequence[int]) -> str:
    if min(rounds) > 1:
        return ""
    if max(rounds) == 1:
        return "± of one round assumes 5 % noise, and more if other programs, steal or speed changes disturbed it"
    return "± of a case with one round assumes the noise of the other cases"


def _of_drains(comparison: Comparison) -> str:
    """Return that some drains are unknown, or an empty string: after a screening siege, servers are stopped at once."""
    if not any(all(run.record.is_screening for run in rounds) for rounds in comparison.rounds):
        return ""
    return "the drain of a case without a full siege is unknown"


def _adjustment(comparison: Comparison) -> str:
    """Return a text that says how much the rates were adjusted for CPU speed, or an empty string if they were not."""
    shifts = [
        abs(case.rate / case.measured_per_s - 1)
        for case in (*comparison.ceilings, *comparison.cases)
        if case.rate and case.measured_per_s
    ]
    largest = formatting.share(max(shifts, default=0.0))
    name = "events/s" if any(case.has_streams for case in comparison.cases) else "trans/s"
    return f"{name} is adjusted for CPU speed and lost CPU time, by up to {largest}" if largest != "0 %" else ""


def load_tool_share(result: Result) -> str:
    """Return a text with the share of CPU time that the load tool and the bench used, or an empty string if unknown."""
    watched = [record for record in result.records if record.machine]
    used_s = sum((record.tool_cpu_s or 0) + (record.bench_cpu_s or 0) for record in watched)
    total_s = sum(record.machine.total_s for record in watched if record.machine)
    tools = ", ".join(sorted({record.tool for record in watched}))
    return f"{tools} and the bench used {100 * used_s / total_s:.1f} % of CPU time" if total_s else ""
