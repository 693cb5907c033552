"""Diagnoses of recorded profiles: of applications that block, each in its own way, and of servers with a pool."""

from command import invoke
from conftest import ROOT, TESTS
from golden_file import assert_golden

RECORDED = (TESTS / "data" / "results" / "profiles.json.gz", ROOT / "results" / "profile.json.gz")


def test_recorded_profiles_have_the_expected_diagnoses(renew: bool) -> None:
    shown = [invoke("report", str(file), "--format", "profile") for file in RECORDED]
    assert [ran.returncode for ran in shown] == [0, 0]
    assert_golden("profiles.txt", "\n".join(ran.stdout for ran in shown), renew)
