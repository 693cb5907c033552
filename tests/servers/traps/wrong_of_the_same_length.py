"""A server that sends all clients wrong responses of the right length once the load has begun."""

from plain_server import serve

loaded: list[bool] = []


def respond(right: str, is_bench: bool) -> tuple[int, str]:
    if not is_bench:
        loaded.append(True)
    return 200, right[::-1] if loaded else right


serve(respond)
