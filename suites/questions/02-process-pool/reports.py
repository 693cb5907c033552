"""What the workers import: not the web framework."""


def build_report(size: int) -> int:  # about 12 ms of computing for 250,000
    return sum(number * number % 7 for number in range(size))
