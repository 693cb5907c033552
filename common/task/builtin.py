"""The built-in tasks: one holds the GIL, one releases it, one is I/O-bound."""

import hashlib
from collections.abc import Generator


def primes() -> Generator[float, None, int]:
    """Counts the primes below 38,000 in pure Python: holds the GIL."""
    count = 0
    for number in range(2, 38_000):
        if number % 500 == 0:
            yield 0  # a good moment to let others run
        count += is_prime(number)
    return count


def is_prime(number: int) -> bool:
    """By trial division, because it takes long."""
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def digest() -> str:
    """Derives a key from a password in one call of hashlib: computes without the GIL."""
    return hashlib.pbkdf2_hmac("sha256", b"correct horse", b"battery staple", 250_000).hex()


def sign_up() -> Generator[float, None, str]:
    """Waits for a database, a mail server and a social network: hardly needs a CPU."""
    yield 0.020
    yield 0.060
    yield 0.200
    return "signed up"


BUILTIN_TASKS = {task.__name__: task for task in (primes, digest, sign_up)}
