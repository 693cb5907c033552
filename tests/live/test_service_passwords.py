"""PostgreSQL and Redis that the bench starts: clients need a password, which other users of this machine can't read."""

import asyncio
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from bench_runs import run_once
from load_tool_checks import needed

from under_siege.host.services import password_variables, services, without_passwords
from under_siege.record.record import CaseFailedError


def arguments() -> str:
    """Return the command lines of all processes, which every user can read."""
    return "\n".join(" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"]))


async def redis(address: str, *commands: Sequence[str]) -> list[str]:
    """Return the first line of each response."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        answers = []
        for words in commands:
            writer.write(f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
            answers.append((await reader.readline()).decode().strip())
        return answers
    finally:
        writer.close()


def with_service(name: str, check) -> None:
    """Call `check` with the address of a service; skip the test if the service is not installed."""

    async def go() -> None:
        async with services() as needs:
            address = (await needs.addresses([name]))[name]
            assert urlsplit(address).password not in arguments()
            await check(address)

    try:
        asyncio.run(go())
    except CaseFailedError as failed:
        if failed.code == "missing_program":
            pytest.skip(str(failed))
        raise


def test_redis_carries_out_nothing_without_the_password() -> None:
    async def check(address: str) -> None:
        asked = await redis(address, ["CONFIG", "SET", "dir", "/tmp"], ["AUTH", "redis"], ["PING"])  # noqa: S108
        assert [answer.partition(" ")[0] for answer in asked] == ["-NOAUTH", "-WRONGPASS", "-NOAUTH"]
        password = urlsplit(address).password
        assert await redis(address, ["AUTH", password], ["PING"]) == ["+OK", "+PONG"]

    with_service("redis", check)


def test_postgresql_runs_no_program_without_the_password() -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def check(address: str) -> None:
        port, folder = urlsplit(address).port, _folder_of(urlsplit(address).port)
        for host in ("127.0.0.1", str(folder)):
            for password in ("", "postgres", "under_siege"):
                with pytest.raises((asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)):
                    await asyncpg.connect(
                        host=host, port=port, user="under_siege", password=password, database="postgres"
                    )
        connection = await asyncpg.connect(address)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        assert folder.stat().st_mode & 0o077 == 0

    with_service("postgresql", check)


def _folder_of(port: int) -> Path:
    """Return the directory of the PostgreSQL that listens on this port."""
    (data,) = {
        one.info["cmdline"][2]
        for one in psutil.process_iter(["cmdline"])
        if (one.info["cmdline"] or [])[1:2] == ["-D"] and one.info["cmdline"][3:5] == ["-p", str(port)]
    }
    return Path(data).parent


def test_a_service_is_not_taken_for_a_program_that_listens_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program may take the port between the moment in which it was free and the start of the service."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        claim = type("Claim", (socket.socket,), {"getsockname": lambda _: stranger.getsockname()})
        monkeypatch.setattr("under_siege.host.services.claimed_port", lambda _: claim())

        async def never(_: str) -> None:
            pytest.fail("the address of the other program was returned")

        with pytest.raises(CaseFailedError) as failed:
            with_service("redis", never)
        assert failed.value.code in ("stranger", "no_service")


SUITE = """
title = "Data"
[load]
tool = "ab"
users = 1
requests = 2
[expect]
check = "{python} show.py checked {postgresql} {redis}"
[servers.shows]
command = "{python} show.py started {postgresql} {host} {port} settings.txt"
environment = { DATABASE_URL = "{postgresql}", REDIS_URL = "{redis}" }
"""
# This server writes its arguments and variables to a file named after its first argument, and prints the variables.
SHOW = """
import json, os, sys
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

class Silent(WSGIRequestHandler):
    def log_message(self, *_): ...

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"fine"]

names = ("DATABASE_URL", "REDIS_URL", "PGPASSWORD", "REDISCLI_AUTH")
shown = {"arguments": sys.argv[2:], "variables": {name: os.environ.get(name) for name in names}}
if sys.argv[1] == "started":
    shown["file"] = Path(sys.argv[-1]).read_text()
    print(shown, file=sys.stderr, flush=True)
Path(os.environ["SHOWN"], sys.argv[1]).write_text(json.dumps(shown))
if sys.argv[1] == "started":
    make_server(sys.argv[3], int(sys.argv[4]), app, handler_class=Silent).serve_forever()
"""


def test_passwords_reach_servers_by_environment_and_file_but_not_by_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("ab")
    (tmp_path / "suite.toml").write_text(SUITE)
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "settings.txt").write_text("{port} {postgresql} {redis}")
    monkeypatch.setenv("SHOWN", str(tmp_path))
    result, ran = run_once(tmp_path, ".")
    (record,) = result.records
    if record.failure and record.failure.code == "missing_program":
        pytest.skip(record.failure.message)
    assert record.failure is None
    started, checked = (json.loads((tmp_path / name).read_text()) for name in ("started", "checked"))
    variables = started["variables"]
    addresses = {"postgresql": variables["DATABASE_URL"], "redis": variables["REDIS_URL"]}
    assert password_variables(addresses) == {name: variables[name] for name in ("PGPASSWORD", "REDISCLI_AUTH")}
    assert all(len(urlsplit(address).password) >= 32 for address in addresses.values())
    public = without_passwords(addresses)
    assert started["arguments"][0] == public["postgresql"]
    assert checked["arguments"] == [public["postgresql"], public["redis"]]
    assert checked["variables"]["PGPASSWORD"] == variables["PGPASSWORD"]
    assert started["file"].split()[1:] == [*addresses.values()]
    passwords = [variables["PGPASSWORD"], variables["REDISCLI_AUTH"]]
    shown = ran.stdout + ran.stderr + (tmp_path / "r.json").read_text() + "".join(started["arguments"])
    assert "DATABASE_URL" in record.server_said
    assert [password for password in passwords if password in shown] == []
