"""Profiles with known stacks."""

from under_siege.profile.sampler import Frame
from under_siege.record.record import Frames, Profile, Stacks, append_row

SAMPLES = 100
LOOP = Frame("BaseEventLoop._run_once", "asyncio/base_events.py", 1922, "library", "")
SELECT = Frame("EpollSelector.select", "selectors.py", 468, "library", "")
ROUTE = Frame("report", "shop/main.py", 12, "async", "return render(rows)")
RENDER = Frame("render", "shop/report.py", 23, "app", "total += price")
THREAD = Frame("Thread.run", "threading.py", 1012, "library", "")
MAIN = "MainThread"


def profile_of(
    *stacks: tuple[int, str, list[Frame], tuple[int, int, int]], users: int = 25, answers: int = 50
) -> Profile:
    """Return a profile of these stacks.

    Each stack has a process, a thread, frames, and three numbers of samples: all, on a CPU, and with the GIL.
    """
    profile = Profile(server="shop", title="Shop", values={"users": users}, answers=answers, load_s=5.0)
    profile.samples = dict.fromkeys(("wall", "cpu", "gil"), SAMPLES)
    profile.frames, profile.stacks, indices = Frames(), Stacks(), {}
    for pid, thread, frames, counts in stacks:
        for frame in frames:
            if indices.setdefault(frame, len(indices)) == len(profile.frames.line):
                append_row(profile.frames, *frame)
        append_row(profile.stacks, pid, thread, [indices[frame] for frame in frames], *counts)
    return profile
