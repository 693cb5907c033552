"""Tasks for the process pool. Its processes import this module, but not the web framework."""


def build_report() -> int:
    return sum(number * number % 7 for number in range(2_000_000))  # about 90 ms of CPU time
