"""Brighten images; a pool runs these functions.

Each sub-interpreter and process imports this module, so it imports no web framework.
"""

BRIGHTER = bytes(min(level + 40, 255) for level in range(256))


def brighten(image: bytes) -> bytes:
    sum(number * number % 7 for number in range(50_000))  # stands in for about 2 ms of other work
    return image.translate(BRIGHTER)


def brighten_all(images: list[bytes]) -> list[bytes]:
    return [brighten(image) for image in images]
