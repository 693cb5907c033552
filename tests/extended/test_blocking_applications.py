"""Applications that block, each in its own way: a new profile names the same code as the recorded one."""

from pathlib import Path

import pytest
from command import invoke
from conftest import TESTS

from under_siege.profile.diagnosis import Diagnosis
from under_siege.record.record import Profile
from under_siege.record.result import load

BLOCKING = TESTS / "suites" / "blocking"
SUITES = {"starving": "starving.toml", "awaiting": "starving.toml", "serializing": "serializing.toml"}
SUITES["waiting_in_threads"] = "waiting.toml"
RECORDED = {profile.server: profile for profile in load(TESTS / "data" / "results" / "profiles.json.gz").profiles}


def named_first(profile: Profile) -> tuple[str, str] | None:
    diagnosis = Diagnosis(profile)
    spots = diagnosis.loop_hotspots or diagnosis.thread_hotspots
    return (spots[0].frame.file, spots[0].frame.function) if spots else None


@pytest.mark.parametrize("server", RECORDED)
def test_a_new_profile_names_the_same_code_as_the_recorded_one(server: str, tmp_path: Path) -> None:
    suite = BLOCKING / SUITES.get(server, "suite.toml")
    ran = invoke("profile", f"{suite}:{server}", "--time", "8s", "--quiet", "--out", str(tmp_path / "p.json"))
    assert ran.returncode == 0, ran.stderr
    (profile,) = load(tmp_path / "p.json").profiles
    assert named_first(profile) == named_first(RECORDED[server])
