"""What the processes of the pool import: not the web framework."""


def build_report() -> int:
    return sum(number * number % 7 for number in range(2_000_000))  # about 90 ms of computing
