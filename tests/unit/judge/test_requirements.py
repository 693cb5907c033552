"""Confidence intervals decide whether requirements are met; reports and exit codes state the outcome."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from command import invoke
from conftest import ROOT, thorough
from formatted import formatted
from rows import fail, places, set_waits
from simulated_comparisons import most_alarms
from simulated_record import bare_record, record_of, result_of
from simulated_results import SERVERS, a_result, failing, suspicious

from common.errors import BadInputError
from under_siege.compare.diff import compare_results
from under_siege.judge.estimates import estimates, more_needed, share_between
from under_siege.judge.goal import goal
from under_siege.judge.metric import MetricValue
from under_siege.judge.ranking import summarize
from under_siege.judge.requirement_check import judged, outcome_of, with_required
from under_siege.judge.stopping_rule import wanted
from under_siege.record.record import Record
from under_siege.record.requests import LOST, PING
from under_siege.record.result import Required, Result, load, save
from under_siege.report import view_of
from under_siege.show.formats import rendered
from under_siege.suite.suite_file import read_suite

SAVED = str(ROOT / "results" / "first.json.gz")


def outcomes(result: Result, *texts: str) -> dict[str, str]:
    """Return the outcome of each requirement for the first server."""
    result.requirements[:] = [Required(text) for text in texts]
    found = judged(summarize(result))
    return {one.goal.text: one.outcome for one in found if one.case.server == found[0].case.server}


def test_the_confidence_interval_decides_whether_a_requirement_is_met() -> None:
    met = {"rate >= 9/s", "rate < 11/s", "ping p99 < 50ms", "memory < 30MB", "cpu < 120ms"}
    missed = {"rate >= 11/s", "rate < 9/s", "ping p95 < 1ms", "of ceiling >= 80%", "memory < 20MB", "cpu < 90ms"}
    found = outcomes(a_result(("1_a", 1, 1.0)), *met, *missed, "rate >= 10/s")  # 10 requests per second
    assert found == {**dict.fromkeys(met, "met"), **dict.fromkeys(missed, "missed"), "rate >= 10/s": "undecided"}


@pytest.mark.parametrize(
    ("text", "goes_on"), [("rate >= 1/s", False), ("rate >= 100/s", False), ("rate >= 10/s", True)]
)
def test_a_run_ends_when_its_requirements_are_decided(text: str, goes_on: bool) -> None:
    result = a_result(("1_a", 1, 1.0), ("2_b", 1, 1.0))
    result.requirements[:] = [Required(text)]
    assert bool(wanted(result).cases) == goes_on


@pytest.mark.parametrize(
    ("rounds", "operator"), thorough(itertools.product((2, 3, 5), (">=", "<")), quick=[(2, ">="), (3, "<")])
)
def test_a_requirement_equal_to_the_true_value_is_undecided_in_95_of_100_results(rounds: int, operator: str) -> None:
    rng, requirement, found = np.random.default_rng(rounds), goal(f"rate {operator} 30/s"), []
    for _ in range(400):
        values = 30 * np.exp(0.03 * rng.standard_normal((4, rounds)))
        for estimate in estimates(values.tolist()):
            found.append(outcome_of(requirement, MetricValue(estimate.mean, *estimate.interval())))
    for outcome in ("met", "missed"):  # nominally 2.5 % each, but two rounds estimate the noise only roughly
        assert 0.005 * len(found) < found.count(outcome) <= 0.05 * len(found)


def test_a_requirement_is_met_in_95_of_100_results_if_the_true_value_is_10_percent_higher() -> None:
    rng, found = np.random.default_rng(1), []
    for _ in range(100):
        (estimate, *_) = estimates((33 * np.exp(0.02 * rng.standard_normal((6, 3)))).tolist())
        found.append(outcome_of(goal("rate >= 30/s"), MetricValue(33.0, *estimate.interval())))
    assert found.count("met") >= 95
    assert "missed" not in found


def of_pings(waited_s: list[float]) -> Result:
    result = a_result(("1_a", 1, 1.0))
    for record in result.records:
        if not record.is_ceiling:
            count = len(places(record.requests, PING))
            set_waits(record.requests, (waited_s * count)[:count])
    return result


def test_a_requirement_on_the_maximum_ping_can_be_missed_but_never_met() -> None:
    assert outcomes(of_pings([0.01] * 79 + [3.0]), "ping max < 2s") == {"ping max < 2s": "missed"}
    assert outcomes(of_pings([0.01]), "ping max < 2s") == {"ping max < 2s": "undecided"}


def test_an_unknown_percentile_has_a_lower_bound() -> None:
    result = a_result(("1_a", 1, 1.0))
    for record in result.records:
        for place in range(60, 80):
            fail(record.requests, place, LOST, "no response", 4.0)
    comparison = summarize(result)
    assert comparison.cases[0].ping_s.p99 is None
    found = comparison.cases[0].metrics["ping_p99_s"]
    assert found.value is None
    assert 2.0 < found.low <= 4.0
    assert goal("ping p99 < 50ms").decided(*found.interval) is False
    assert goal("ping p99 < 10s").decided(*found.interval) is None


@pytest.mark.parametrize(("share", "count"), [(0.999, 500), (0.99, 100), (0.9, 60), (0.5, 40)])
def test_the_confidence_interval_of_an_availability_contains_the_true_availability(share: float, count: int) -> None:
    rng, covered = np.random.default_rng(count), 0
    for _ in range(1000):
        low, high = share_between(rng.binomial(count, share, 3).tolist(), [count] * 3)
        covered += low <= share <= high
    assert covered >= 945  # the interval is conservative if failures are rare


def test_failures_in_bursts_widen_the_confidence_interval_of_the_availability() -> None:
    even, burst = share_between([90, 90, 90], [100] * 3), share_between([100, 100, 70], [100] * 3)
    assert burst[1] - burst[0] > 2 * (even[1] - even[0])
    rng, covered, careless = np.random.default_rng(1), 0, 0
    for _ in range(1000):
        hits = rng.binomial(200, rng.beta(45, 5, 5)).tolist()  # 0.9 on average
        low, high = share_between(hits, [200] * 5)
        covered += low <= 0.9 <= high
        low, high = share_between([sum(hits)], [1000])
        careless += low <= 0.9 <= high
    assert careless < 700 < 850 < covered


def test_a_strict_availability_requirement_is_undecided_after_few_requests_even_without_failures(golden) -> None:
    assert share_between([60], [60]) == pytest.approx((0.025 ** (1 / 60), 1.0))
    more = more_needed([60], [60], 0.999)
    low, _ = share_between([60 + more], [60 + more])
    before, _ = share_between([59 + more], [59 + more])
    assert before < 0.999 <= low
    assert more_needed([59], [60], 0.999) is None
    assert more_needed([60], [60], 1.0) is None
    result = a_result(("1_a", 1, 1.0))
    found = outcomes(result, "availability >= 99.9%", "availability >= 90%")
    assert found == {"availability >= 99.9%": "undecided", "availability >= 90%": "met"}
    assert judged(summarize(result))[0].more > 0
    assert view_of(result).exit_code == 3
    golden(rendered(view_of(result), "table"))


def test_availability_requirements_of_suspect_cases_are_decided_but_rate_requirements_are_not() -> None:
    found = outcomes(suspicious(a_result(("1_a", 1, 1.0)), "1_a"), "availability >= 99.9%", "rate >= 5/s")
    assert found == {"availability >= 99.9%": "missed", "rate >= 5/s": "undecided"}


def test_failed_cases_miss_all_requirements_and_ping_requirements_are_undecided_after_one_round() -> None:
    failed = failing(a_result(*SERVERS), "1_a")
    assert outcomes(failed, "rate >= 1/s", "memory < 1GB") == {"rate >= 1/s": "missed", "memory < 1GB": "missed"}
    once = result_of([bare_record(1), record_of("1_a", 1)])
    assert outcomes(once, "rate >= 1/s", "ping p99 < 9s") == {"rate >= 1/s": "met", "ping p99 < 9s": "undecided"}


def test_requirements_of_a_server_apply_only_to_it_and_no_requirement_applies_to_the_ceiling() -> None:
    result = a_result(*SERVERS)
    result.requirements += [Required("rate >= 1/s"), Required("rate >= 100/s", "3_c")]
    found = judged(summarize(result))
    assert [(one.case.server, one.outcome) for one in found] == [("1_a", "met"), ("3_c", "met"), ("3_c", "missed")]
    assert view_of(result).exit_code == 1


def test_requirements_are_saved_and_every_output_format_shows_them(tmp_path, undrawn, golden) -> None:
    result = a_result(*SERVERS)
    result.requirements += [Required("rate >= 15/s"), Required("ping p99 < 50ms")]
    save(result, tmp_path / "r.json")
    shown = load(tmp_path / "r.json")
    golden(formatted(shown, "table"), formatted(shown, "markdown"))
    assert "missed" in formatted(shown, "html")
    told = json.loads(formatted(shown, "json"))["requirements"]
    assert [(one["requirement"], one["server"], one["outcome"]) for one in told] == [
        ("rate >= 15/s", "1_a", "missed"),
        ("rate >= 15/s", "3_c", "met"),
        ("ping p99 < 50ms", "1_a", "met"),
        ("ping p99 < 50ms", "3_c", "met"),
    ]
    assert told[0]["low"] < told[0]["value"] < told[0]["high"] < 15


@pytest.mark.parametrize(
    ("goal_", "exit_code"),
    [("rate >= 1/s", 0), ("rate >= 1000000/s", 1), ("availability >= 99.9999%", 3), ("of ceiling >= 80%", 2)],
)
def test_the_report_command_checks_requirements_of_a_saved_result(goal_: str, exit_code: int) -> None:
    """Another metric than those of the result is an error."""
    ended = invoke("report", SAVED, "--require", goal_)
    assert ended.returncode == exit_code
    assert ended.stderr.count("\n") == (exit_code == 2)


RUNNING = "http://127.0.0.1:1/"
IMPOSSIBLE = {
    "2": ("speed > 3", "rate >= 0.97 of base"),
    RUNNING: ("cpu < 1s", "ping p99 < 1s", "of ceiling > 9%"),
}


def test_impossible_requirements_are_rejected_before_the_run(tmp_path: Path, golden) -> None:
    wanted = [(target, goal_) for target, goals in IMPOSSIBLE.items() for goal_ in goals]
    refused = [invoke("run", target, "--require", goal_, folder=tmp_path) for target, goal_ in wanted]
    assert {(one.returncode, one.stdout, one.stderr.count("\n")) for one in refused} == {(2, "", 1)}
    assert not list(tmp_path.glob("results/*"))
    golden(*(one.stderr.strip() for one in refused))


def a_suite(tmp_path, require: str):
    path = tmp_path / "shop.toml"
    server = '[servers.{}]\ncommand = "python app.py {{port}}"\n'
    path.write_text(f"[require]\n{require}\n" + server.format("one") + server.format("two"))
    return path


def test_a_suite_may_set_requirements_for_all_servers_and_for_single_servers(tmp_path) -> None:
    path = a_suite(tmp_path, 'all = ["availability  >= 99%", "rate >= 0.97 of base"]\ntwo = ["p99 < 1s"]')
    assert with_required(read_suite(path), ["rate > 1/s", "availability >= 99%"]).required == (
        Required("availability >= 99%"),
        Required("rate >= 0.97 of base"),
        Required("p99 < 1s", "two"),
        Required("rate > 1/s"),
    )
    assert Required("p99 < 1s", "two") not in read_suite(path, ["one"]).required


STRESSOR = '[load]\ntool = "stressor"\n'  # it reports no percentiles


@pytest.mark.parametrize("require", ['all = ["p99"]', 'three = ["p99 < 1s"]', 'all = "p99 < 1s"', STRESSOR])
def test_an_invalid_requirement_in_a_suite_causes_a_one_line_error(require: str, tmp_path: Path, golden) -> None:
    text = f'all = ["p99 < 1s"]\n{require}' if require == STRESSOR else require
    with pytest.raises(BadInputError) as refused:
        with_required(read_suite(a_suite(tmp_path, text)), [])
    golden(str(refused.value).replace(str(tmp_path), ""))


@pytest.mark.parametrize("command", ["run", "trace", "capacity", "drill"])
def test_every_command_rejects_a_suite_with_an_invalid_requirement(command: str, tmp_path: Path) -> None:
    refused = invoke(command, str(a_suite(tmp_path, 'two = ["p99 < 1"]')))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "require.two" in refused.stderr


def of_base(base: Result, new: Result, *texts: str) -> list[str]:
    new.requirements[:] = [Required(text) for text in texts]
    return [one.outcome for one in compare_results(base, new).required]


def test_requirements_relative_to_the_base_result_are_evaluated() -> None:
    base, same, slow = (a_result(("1_a", 1, quality), seed=seed) for seed, quality in enumerate((1.0, 1.0, 0.8), 1))
    texts = ("rate >= 0.9 of base", "ping p99 <= 150% of base", "memory < 2 of base", "rate >= 5/s")
    assert of_base(base, same, *texts) == ["met"] * 4
    assert of_base(base, slow, "rate >= 0.9 of base", "rate >= 0.7 of base") == ["missed", "met"]
    assert of_base(base, same, "rate >= 1 of base") == ["undecided"]
    assert compare_results(base, slow).exit_code == 1
    flattered = suspicious(a_result(("1_a", 1, 1.0)), "1_a")
    assert of_base(flattered, same, "rate >= 0.5 of base", "rate >= 1.5 of base") == ["met", "undecided"]
    assert of_base(a_result(("2_b", 1, 1.0)), same, "rate >= 0.5 of base") == ["undecided"]


@pytest.mark.parametrize("trials", thorough([5, 30], quick=[5]))
def test_a_requirement_of_the_base_rate_is_decided_in_at_most_5_of_100_comparisons_of_equal_results(trials) -> None:
    found = []
    for seed in range(trials):
        base, new = (a_result(*SERVERS, seed=2 * seed + more) for more in (0, 1))
        found += of_base(base, new, "rate >= 1 of base")
    assert len(found) - found.count("undecided") <= most_alarms(len(found))


def test_every_output_format_of_compare_shows_requirements(tmp_path) -> None:
    for name, quality, seed in (("base", 1.0, 1), ("new", 0.8, 2)):
        save(a_result(("1_a", 1, quality), seed=seed), tmp_path / f"{name}.json")
    files = [str(tmp_path / f"{name}.json") for name in ("base", "new")]
    for dress in ("table", "markdown", "json"):
        ended = invoke("compare", *files, "--format", dress, "--require", "rate >= 0.97 of base")
        assert ended.returncode == 1
        assert "missed" in ended.stdout
    assert json.loads(ended.stdout)["requirements"][0]["of_base"] is True
    assert invoke("report", files[0], "--require", "rate >= 0.97 of base").returncode == 2


def test_a_malicious_requirement_in_a_result_file_causes_a_one_line_error(tmp_path) -> None:
    result: Result = a_result(("1_a", 1, 1.0))
    result.requirements.append(Required("<script>\x1b[31m|`\n < 3"))
    save(result, tmp_path / "r.json")
    for dress in ("table", "html", "json"):
        ended = invoke("report", str(tmp_path / "r.json"), "--format", dress)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert len(ended.stderr.splitlines()) == 1
        assert "\x1b" not in ended.stderr


def test_older_result_files_without_requirements_can_be_loaded() -> None:
    assert load(ROOT / "results" / "published.json.gz").requirements == []
    assert isinstance(load(ROOT / "results" / "published.json.gz").records[0], Record)


def test_an_unclear_case_with_a_wide_interval_can_meet_or_miss_a_requirement() -> None:
    noisy = a_result(("1_a", 1, 1.0), noise=0.4, seed=2, speeds=None)
    (case,) = summarize(noisy).cases
    assert [reason.code for reason in case.reasons] == ["wide_interval"]
    low, high = case.rate_per_s.low, case.rate_per_s.high
    met, missed = f"rate >= {low / 2:.3f}/s", f"rate >= {2 * high:.3f}/s"
    assert outcomes(noisy, met, missed) == {met: "met", missed: "missed"}


def test_a_result_without_cases_can_not_meet_a_requirement() -> None:
    told = invoke("report", "results/capacity.json.gz", "--require", "rate >= 1/s", folder=ROOT)
    assert (told.returncode, told.stdout) == (2, "")
    assert "capacity --goal" in told.stderr
