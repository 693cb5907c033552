"""The recipe for background jobs in suites/questions limits them, and reports a broken process pool."""

import asyncio
import importlib
from concurrent.futures.process import BrokenProcessPool

import pytest
from conftest import ROOT
from fastapi import HTTPException


def test_the_recipe_for_background_jobs_limits_them_and_reports_a_broken_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "suites" / "questions" / "03-background-tasks"))
    limited = importlib.import_module("limited")

    async def start_jobs() -> None:
        jobs, may_end = limited.LimitedJobs(1), asyncio.Event()
        await jobs.start(may_end.wait)
        second = asyncio.create_task(jobs.start(break_pool))
        for _ in range(20):  # the event loop needs a few iterations to start a job
            await asyncio.sleep(0)
        assert not second.done()  # it waits for the first job
        may_end.set()
        await second
        await jobs.finish()
        with pytest.raises(HTTPException, match="the process pool is broken"):
            await jobs.start(may_end.wait)

    async def break_pool() -> None:
        raise BrokenProcessPool

    asyncio.run(start_jobs())
