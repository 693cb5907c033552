"""What the workers import: not the web framework."""


def build_report() -> int:  # about 12 ms of computing
    return sum(number * number % 7 for number in range(250_000))
