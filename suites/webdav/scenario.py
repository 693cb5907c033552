"""The requests of a Locust user: GET a file, PUT a new file, GET the new file, and check it on the disk."""

import uuid
from pathlib import Path
from urllib.parse import urljoin


def visit(user) -> None:
    name = f"of_{id(user)}.txt"
    url, body = urljoin(user.url, f"/temp/{name}"), f"{uuid.uuid4()}\n" * 10
    is_right(user, "GET", user.url, expected=user.expected or None)
    if is_right(user, "PUT", url, data=body):
        is_right(user, "GET", url, expected=body.encode(), file=user.folder and Path(user.folder, name))


def is_right(user, method: str, url: str, expected: bytes | None = None, file: Path | str = "", **what) -> bool:
    """Send a request, count it as failed unless the response is correct, and return whether the status is below 300."""
    with user.client.request(method, url, name=method, headers=user.headers, catch_response=True, **what) as answer:
        if answer.status_code and not 200 <= answer.status_code < 300:
            answer.failure(f"status {answer.status_code}")
        elif answer.status_code and expected is not None and answer.content != expected:
            answer.failure("wrong contents")
        elif file and not (Path(file).is_file() and Path(file).read_bytes() == expected):
            answer.failure("wrong contents on the disk")
        return bool(answer.status_code and answer.status_code < 300)
