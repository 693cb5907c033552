"""From the first request of the load on, sends all clients a wrong response of the right length."""

from plain_server import serve

loaded: list[bool] = []


def respond(right: str, is_bench: bool) -> tuple[int, str]:
    if not is_bench:
        loaded.append(True)
    return 200, right[::-1] if loaded else right


serve(respond)
