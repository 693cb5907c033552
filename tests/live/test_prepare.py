"""Preparation before the load: `prepare` commands, and networks with limited ports."""

import asyncio
from pathlib import Path

import pytest
from fake_load import SilentWatcher
from suite_plans import SERVERS, plan_in, start_in

from under_siege.host.ports import own_network
from under_siege.measure.prepare import prepared
from under_siege.record.record import CaseFailedError


def test_each_prepare_command_runs_once_and_one_that_fails_affects_only_its_own_server(tmp_path: Path) -> None:
    (tmp_path / "note.py").write_text("import sys; open('done', 'a').write(sys.argv[1] + ' ')")
    (tmp_path / "fail.py").write_text("raise SystemExit('no compiler here')")
    text = SERVERS.replace('built"\n', 'built"\nprepare = "python note.py {size}"\n')
    text = text.replace('broken"\n', 'broken"\nprepare = "python fail.py"\n')
    plan = plan_in(tmp_path, f'prepare = "python note.py all"\n[axes]\nsize = [1, 2]\n{text}')
    ready = asyncio.run(prepared(plan, SilentWatcher()))
    assert (tmp_path / "done").read_text() == "all 1 2 "
    assert start_in(ready, "plain").words[-1] == "plain"
    assert start_in(ready, "built").words[-1] == "built"
    with pytest.raises(CaseFailedError, match=r"the prepare command failed: 'python fail\.py': no compiler here"):
        start_in(ready, "broken")


def test_a_failing_prepare_command_of_the_suite_fails_all_cases(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, f'prepare = "no-such-program {{suite}}"\n{SERVERS}')
    ready = asyncio.run(prepared(plan, SilentWatcher()))
    for name in ("plain", "built", "broken"):
        with pytest.raises(CaseFailedError, match="can't be started: 'no-such-program': No such file") as failed:
            start_in(ready, name)
        assert failed.value.code == "not_prepared"


def test_a_private_network_can_have_a_limited_port_range() -> None:
    settings, messages = Path("/proc/sys/net/ipv4"), []
    if not settings.is_dir():
        pytest.skip("this is not Linux")
    before = (settings / "ip_local_port_range").read_text(), (settings / "tcp_tw_reuse").read_text()
    with own_network(messages.append, 150) as is_own:
        if not is_own:
            pytest.skip(messages[0])
        first, last = map(int, (settings / "ip_local_port_range").read_text().split())
        assert last - first + 1 == 150
        assert (settings / "tcp_tw_reuse").read_text() == "0\n"
    assert before == ((settings / "ip_local_port_range").read_text(), (settings / "tcp_tw_reuse").read_text())
