"""Define the built-in tasks: one holds the GIL, one releases it, and one is I/O-bound."""

import hashlib
from collections.abc import Generator


def primes() -> Generator[float, None, int]:
    """Count the primes below 38,000 in pure Python, which holds the GIL."""
    count = 0
    for number in range(2, 38_000):
        if number % 500 == 0:
            yield 0  # lets other code run
        count += is_prime(number)
    return count


def is_prime(number: int) -> bool:
    """Return whether a number is prime. The slow trial division is intentional."""
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def digest() -> str:
    """Derive a key from a password with one call to hashlib, which releases the GIL."""
    return hashlib.pbkdf2_hmac("sha256", b"correct horse", b"battery staple", 250_000).hex()


def sign_up() -> Generator[float, None, str]:
    """Simulate I/O: wait for a database, a mail server and a social network."""
    yield 0.020
    yield 0.060
    yield 0.200
    return "signed up"


BUILTIN_TASKS = {task.__name__: task for task in (primes, digest, sign_up)}
