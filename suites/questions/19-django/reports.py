"""reports.py: what the workers of the pool import. It imports neither views nor models."""


def build_report() -> str:
    return str(sum(number * number % 7 for number in range(250_000)))  # about 12 ms of computing
