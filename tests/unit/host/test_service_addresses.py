"""Addresses of services that the bench starts: where they contain the password, and where they must not."""

from pathlib import Path

import pytest

from common.errors import BadInputError
from under_siege.host.services import SERVICES, password_variables, without_passwords
from under_siege.suite.suite_file import suite_from


def test_redis_on_a_command_line_is_refused_with_the_place_where_its_address_belongs(tmp_path: Path) -> None:
    server = {"command": "python app.py {port} {redis}"}
    with pytest.raises(BadInputError, match=r'environment = \{ REDIS_URL = "\{redis\}" \}$'):
        suite_from({"servers": {"shop": server}}, tmp_path / "s.toml", "s.toml")
    both = {**server, "environment": {"REDIS_URL": "{redis}"}}
    assert suite_from({"servers": {"shop": both}}, tmp_path / "s.toml", "s.toml").targets[0].needs == ("redis",)


def test_addresses_for_a_command_line_are_those_of_the_service_without_its_password() -> None:
    addresses = {"postgresql": "postgresql://under_siege:s3cr3t@127.0.0.1:1/postgres", "redis": "redis://:s3cr3t@h:2/0"}
    assert without_passwords(addresses) == {
        "postgresql": "postgresql://under_siege@127.0.0.1:1/postgres",
        "redis": "redis://h:2/0",
    }
    assert password_variables(addresses) == {"PGPASSWORD": "s3cr3t", "REDISCLI_AUTH": "s3cr3t"}


@pytest.mark.parametrize("name", SERVICES)
def test_no_option_of_a_service_contains_its_password(name: str) -> None:
    service = SERVICES[name]
    assert "{password}" in service.address
    assert "{password}" in service.file[1]
    assert "{password}" not in " ".join([service.options, *(service.prepare or ())])
