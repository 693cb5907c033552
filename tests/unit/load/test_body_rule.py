"""Rules that compare a response body with the expected body."""

import json

import pytest

from under_siege.load.body_rule import ANY, FIELDS, JSON, PATTERN, SAME, BodyRule, keys_of
from under_siege.load.http_client import HttpResponse

RIGHT = json.dumps({"id": 1, "items": [{"id": 7, "name": "pen"}, {"id": 8, "name": "ink"}], "status": "done"}).encode()


def changed(**values: object) -> bytes:
    return json.dumps({**json.loads(RIGHT), **values}).encode()


PENS = [{"id": 3, "name": "pen"}, {"id": 4, "name": "ink"}]
BODIES = {
    "same": (BodyRule(), RIGHT),
    "any": (BodyRule(ANY), b"\xff"),
    "spaces_in_json": (BodyRule(JSON), RIGHT.replace(b" ", b"")),
    "ignored": (BodyRule(JSON, ignored=("id",)), changed(id=2)),
    "ignored_in_a_list": (BodyRule(JSON, ignored=("items.*.id",)), changed(items=PENS)),
    "ignored_as_a_whole": (BodyRule(JSON, ignored=("items",)), changed(items="none")),
    "ignored_with_a_longer_path": (BodyRule(JSON, ignored=("items.0.id", "items")), changed(items="none")),
    "right_field": (BodyRule(FIELDS, (("status", "done"), ("items.1.id", 8))), changed(id=5)),
    "pattern": (BodyRule(PATTERN, pattern=r'"status": "\w+"'), RIGHT),
}
WRONG_BODIES = {
    "different_bytes": (BodyRule(SAME), RIGHT + b" "),
    "json_value": (BodyRule(JSON), changed(id=2)),
    "json_missing": (BodyRule(JSON), b'{"id": 1, "status": "done"}'),
    "json_extra": (BodyRule(JSON), changed(debug=True)),
    "not_json": (BodyRule(JSON), b"Oops"),
    "true_is_not_1": (BodyRule(JSON), changed(id=True)),
    "ignored_elsewhere": (BodyRule(JSON, ignored=("items.0.id",)), changed(items=PENS)),
    "wrong_field": (BodyRule(FIELDS, (("items.1.id", 9),)), RIGHT),
    "wrong_list_field": (BodyRule(FIELDS, (("items.*.name", "pen"),)), RIGHT),
    "missing_field": (BodyRule(FIELDS, (("total", 3),)), RIGHT),
    "field_of_a_body_that_is_not_json": (BodyRule(FIELDS, (("total", 3),)), b"Oops"),
    "pattern_without_a_match": (BodyRule(PATTERN, pattern=r"total: \d+"), RIGHT),
    "deeply_nested": (BodyRule(FIELDS, (("a", 1),)), b"[" * 100_000),
    "secret_value": (BodyRule(FIELDS, (("token", "1"),)), b'{"token": "2"}'),
    "secret_missing": (BodyRule(FIELDS, (("auth.user", "1"),)), b"{}"),
    "below_a_secret": (BodyRule(FIELDS, (("auth.user", "1"),)), b'{"auth": {"user": "2"}}'),
    "alike_but_for_a_secret": (BodyRule(FIELDS, (("url", "redis://a:1@b"),)), b'{"url": "redis://a:2@b"}'),
}


@pytest.mark.parametrize("name", BODIES)
def test_correct_bodies_are_accepted(name: str) -> None:
    rule, body = BODIES[name]
    assert rule.problem(body, RIGHT) == ""


def test_the_error_for_a_wrong_body_states_the_problem(golden) -> None:
    problems = {name: rule.problem(body, RIGHT) for name, (rule, body) in WRONG_BODIES.items()}
    assert all(problems.values())
    golden(*(f"{name}: {problem}" for name, problem in problems.items()))


def test_long_values_in_the_error_for_a_wrong_body_are_shortened() -> None:
    assert len(BodyRule(JSON).problem(changed(id="x" * 10_000), RIGHT)) < 100


VARYING = [  # two bodies, and the paths at which they differ
    ({"id": 1, "items": [{"id": 1}, {"id": 2}]}, {"id": 2, "items": [{"id": 3}, {"id": 4}]}, ["id", "items.*.id"]),
    ({"a.b": 1, "c[0]": {"": 2}}, {"a.b": 2, "c[0]": {"": 3}}, ['["a.b"]', '["c[0]"][""]']),
    ([{"id": 1, "name": "pen"}], [{"id": 2, "name": "pen"}], ["*.id"]),
    ({"200": 5, "404": 1, "sum": 6}, {"200": 4, "404": 1, "sum": 6}, ["200"]),
    ({"results": {"3f": 1}, "sum": 6}, {"results": {"a7": 1}, "sum": 6}, ["results"]),
    ({str(n): n for n in range(60)}, {str(n): -1 - n for n in range(60)}, [str(n) for n in range(60)]),
    ({str(n): n for n in range(400)}, {str(n): -1 - n for n in range(400)}, []),
    ({"a": 1}, {"b": 2}, []),
    ([1], [1, 2], []),
    ("Oops", "Oh", []),
]


@pytest.mark.parametrize(("one", "other", "paths"), VARYING)
def test_the_paths_at_which_bodies_differ_are_those_to_ignore(one: object, other: object, paths: list[str]) -> None:
    body, right = json.dumps(one).encode(), json.dumps(other).encode()
    assert BodyRule(JSON).differing_paths(body, right) == paths
    assert (BodyRule(JSON, ignored=tuple(paths)).problem(body, right) == "") is bool(paths)


def test_a_path_may_be_written_with_brackets() -> None:
    assert keys_of("items[0].id") == keys_of("items.0.id") == ("items", "0", "id")
    assert keys_of('[*]["a.b"]') == ("*", "a.b")
    for text in ("", ".a", "a.", "a..b", "a[", "a[x]", "a]", "a.[0]"):
        with pytest.raises(ValueError, match="no path"):
            keys_of(text)


def test_an_ignored_path_that_does_not_exist_is_reported() -> None:
    assert BodyRule(JSON, ignored=("id", "items.*.id", "items.*.color")).unused(RIGHT) == "items.*.color"
    assert BodyRule(JSON, ignored=("id", "items.1.id")).unused(RIGHT) == ""


def test_rules_and_responses_are_described(golden) -> None:
    assert BodyRule().checked() == ""
    rules = (
        BodyRule(JSON, ignored=("id", "at")),
        BodyRule(JSON, ignored=tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHI")),
        BodyRule(FIELDS, (("status", "done"),)),
    )
    archive = HttpResponse(200, b"PK\x03\x04\x14\x00\xff", {"content-type": "application/zip"})
    texts = [HttpResponse(200, body, {}) for body in (b"a\nb", b"Authorization: Bearer 1234")]
    golden(*(rule.checked() for rule in rules), *(response.described() for response in (archive, *texts)))
