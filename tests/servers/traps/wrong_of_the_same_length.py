"""From the first request of the load on, everybody gets a wrong answer that is as long as the right one."""

from plain_server import serve

loaded: list[bool] = []


def tell(right: str, is_harness: bool) -> tuple[int, str]:
    if not is_harness:
        loaded.append(True)
    return 200, right[::-1] if loaded else right


serve(tell)
