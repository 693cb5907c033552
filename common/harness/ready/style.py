"""In which style a suite is asked: each user waits for its answer, or posts a job."""

from dataclasses import replace

from common.errors import BadInputError
from common.model.suite import JOBS, OPEN, Suite

WAITING = "waiting"
STYLES = (WAITING, JOBS)
_AT = "/jobs"  # of the server contract


def in_style(suite: Suite, style: str) -> Suite:
    """The suite with jobs in place of what is waited for, if that is wanted; a suite may want it itself.

    Raises:
        BadInputError: what its users do can't be done with jobs.
    """
    if style != JOBS and not suite.load.posts_jobs:
        return suite
    load = suite.load
    if load.script or load.files or load.requests is not None or load.tool == OPEN:
        raise BadInputError(
            f"{suite.source or suite.title}: its load has a script, files, a number of requests, or is open: "
            "expected one path and a time for --style jobs"
        )
    path = _AT if suite.has_task else load.path
    if not load.posts_jobs:
        load = replace(load, tool=JOBS, threads=1, options=())  # those of another tool
    load = replace(load, path=path)
    targets = tuple(replace(one, axes=(*one.axes, "style")) for one in suite.targets)
    return replace(suite, load=load, targets=targets, axes={**suite.axes, "style": (JOBS,)})
