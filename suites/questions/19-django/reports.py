"""reports.py: build reports in pool workers, which import this module but no views or models."""


def build_report() -> str:
    return str(sum(number * number % 7 for number in range(250_000)))  # about 12 ms of CPU time
