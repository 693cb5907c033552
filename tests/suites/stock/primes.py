"""The built-in task `primes`, written again, so that these servers share no code with the project's servers."""


def primes() -> str:
    count = 0
    for number in range(2, 38_000):
        count += number % 500 >= 0 and is_prime(number)
    return str(count)


def is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))
