"""Rules that compare a response body with the expected body."""

import json

import pytest

from under_siege.load.request import ANY, FIELDS, JSON, PATTERN, SAME, BodyRule

RIGHT = json.dumps({"id": 1, "items": [{"id": 7, "name": "pen"}, {"id": 8, "name": "ink"}], "status": "done"}).encode()


def changed(**values: object) -> bytes:
    return json.dumps({**json.loads(RIGHT), **values}).encode()


PENS = [{"id": 3, "name": "pen"}, {"id": 4, "name": "ink"}]
PROBLEMS = {
    "same": (BodyRule(), RIGHT, ""),
    "different_bytes": (BodyRule(SAME), RIGHT + b" ", "different bytes"),
    "any": (BodyRule(ANY), b"\xff", ""),
    "spaces_in_json": (BodyRule(JSON), RIGHT.replace(b" ", b""), ""),
    "json_value": (BodyRule(JSON), changed(id=2), "id is 2 instead of 1"),
    "json_missing": (BodyRule(JSON), b'{"id": 1, "status": "done"}', "items is missing instead of"),
    "json_extra": (BodyRule(JSON), changed(debug=True), "debug is unexpected"),
    "not_json": (BodyRule(JSON), b"Oops", "it is b'Oops' instead of {"),
    "true_is_not_1": (BodyRule(JSON), changed(id=True), "id is true instead of 1"),
    "secret_value": (
        BodyRule(FIELDS, (("token", "1"),)),
        b'{"token": "2"}',
        "token, which is masked, has another value",
    ),
    "secret_missing": (BodyRule(FIELDS, (("auth.user", "1"),)), b"{}", "auth.user is missing"),
    "below_a_secret": (
        BodyRule(FIELDS, (("auth.user", "1"),)),
        b'{"auth": {"user": "2"}}',
        "auth.user, which is masked,",
    ),
    "alike": (
        BodyRule(FIELDS, (("url", "redis://a:1@b"),)),
        b'{"url": "redis://a:2@b"}',
        'url is "redis://a:***@b" instead of "redis://a:***@b"; they differ in a password, which is masked',
    ),
    "ignored": (BodyRule(JSON, ignored=("id",)), changed(id=2), ""),
    "ignored_in_a_list": (BodyRule(JSON, ignored=("items.*.id",)), changed(items=PENS), ""),
    "ignored_elsewhere": (BodyRule(JSON, ignored=("items.0.id",)), changed(items=PENS), "items.1.id is 4 instead of 8"),
    "ignored_as_a_whole": (BodyRule(JSON, ignored=("items",)), changed(items="none"), ""),
    "right_field": (BodyRule(FIELDS, (("status", "done"), ("items.1.id", 8))), changed(id=5), ""),
    "wrong_field": (BodyRule(FIELDS, (("items.1.id", 9),)), RIGHT, "items.1.id is 8 instead of 9"),
    "wrong_list_field": (BodyRule(FIELDS, (("items.*.name", "pen"),)), RIGHT, 'items.*.name is "ink" instead of "pen"'),
    "missing_field": (BodyRule(FIELDS, (("total", 3),)), RIGHT, "total is missing instead of 3"),
    "field_of_a_body_that_is_not_json": (BodyRule(FIELDS, (("total", 3),)), b"Oops", "total is missing instead of 3"),
    "pattern": (BodyRule(PATTERN, pattern=r'"status": "\w+"'), RIGHT, ""),
    "pattern_without_a_match": (BodyRule(PATTERN, pattern=r"total: \d+"), RIGHT, "nothing matches 'total: \\\\d+'"),
    "deeply_nested": (BodyRule(FIELDS, (("a", 1),)), b"[" * 100_000, "a is missing instead of 1"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_correct_bodies_are_accepted_and_the_error_for_a_wrong_body_states_the_problem(name: str) -> None:
    rule, body, problem = PROBLEMS[name]
    assert rule.problem(body, RIGHT)[: len(problem) or None] == problem


def test_long_values_in_the_error_for_a_wrong_body_are_shortened() -> None:
    assert len(BodyRule(JSON).problem(changed(id="x" * 10_000), RIGHT)) < 100


def test_each_differing_field_is_listed_once() -> None:
    assert BodyRule(JSON).differing_paths(changed(id=2, items=PENS), RIGHT) == ["id", "items.*.id"]
    assert BodyRule(JSON).differing_paths(b"Oops", b"Oh") == []


def test_an_ignored_path_that_does_not_exist_is_reported() -> None:
    assert BodyRule(JSON, ignored=("id", "items.*.id", "items.*.color")).unused(RIGHT) == "items.*.color"
    assert BodyRule(JSON, ignored=("id", "items.1.id")).unused(RIGHT) == ""


def test_the_description_of_a_rule_lists_the_checked_or_ignored_fields() -> None:
    assert BodyRule().checked() == ""
    assert BodyRule(JSON, ignored=("id", "at")).checked().endswith("ignoring id, at")
    assert BodyRule(FIELDS, (("status", "done"),)).checked().endswith("fields were checked: status")
