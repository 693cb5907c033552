"""Commands that run a container: which words belong to the runtime, and which commands are refused."""

from pathlib import Path

import pytest

from common.errors import BadInputError
from under_siege.host.docker_run import Container, container_command
from under_siege.suite.suite_file import suite_from


@pytest.mark.parametrize(
    ("command", "client"),
    [
        ("docker run --rm -p 127.0.0.1:8000:8000 shop", "docker"),
        ("docker container run shop", "docker"),
        ("sudo /usr/bin/docker -D --tls -H tcp://far:2376 --context=far run shop", "sudo /usr/bin/docker"),
        ("podman --remote -c far --url=ssh://far run shop", "podman"),
        ("env DOCKER_CONTEXT=far docker --log-level run run shop", "env DOCKER_CONTEXT=far docker"),
    ],
)
def test_the_options_of_the_runtime_belong_to_its_other_commands_too(command: str, client: str) -> None:
    found = container_command(command.split())
    assert found is not None
    before = command.split()[: found.first_option - 1]
    assert list(found.client) == [word for word in before if word != "container"]
    assert " ".join(found.client).startswith(client)


@pytest.mark.parametrize(
    "command",
    [
        "docker run --rm shop python app.py -d",
        "docker run -it -e d=1 -p127.0.0.1:8000:8000 shop --detach",
        "docker run --name -d shop",
        "docker run --detach=false shop",
        "docker run -d=false shop",
        "docker run -- shop -d",
        "docker run shop docker compose up",
        "docker run shop sh -c 'docker run other'",
        "podman run --replace --name web --tls-verify shop --cidfile",
    ],
)
def test_options_of_the_program_in_the_container_are_not_those_of_docker(command: str) -> None:
    found = container_command(command.split())
    assert found is not None
    assert found.id_file == ""


@pytest.mark.parametrize(
    "command",
    [
        "uvicorn --app-dir docker main:app",
        "docker version",
        "python tool.py run docker",
        "docker build .",
        "",
        "ssh far",
    ],
)
def test_other_commands_are_not_taken_for_containers(command: str) -> None:
    assert container_command(command.split()) is None


def test_a_container_on_another_machine_is_left_to_ssh() -> None:
    assert container_command(["ssh", "-tt", "far", "docker", "run", "--rm", "shop"]) is None
    assert container_command(["ssh", "-tt", "far", "docker compose run shop"]) is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["docker", "run", "-d", "shop"], "docker run -d ends before its server does; remove -d"),
        (["docker", "run", "-itd", "shop"], "remove -d"),
        (["podman", "run", "--detach", "shop"], "podman run -d ends before"),
        (["docker", "run", "--rm", "--cidfile"], "--cidfile: expected the name of a file"),
        (["docker", "run", "--cidfile=", "shop"], "--cidfile: expected the name of a file"),
        (["docker", "compose", "run", "shop"], "docker compose run: the bench can't find the containers"),
        (["docker", "--context", "far", "compose", "-f", "a.yml", "up"], "docker compose"),
        (["docker-compose", "run", "shop"], "docker-compose: the bench can't find the containers"),
        (["docker", "start", "-a", "shop"], "docker start: the bench can't find the containers"),
        (["docker", "container", "exec", "shop", "app"], "docker container exec"),
        (["podman", "kube", "play", "pod.yaml"], "podman kube"),
        (["sh", "-c", "docker run -p 127.0.0.1:8000:8000 shop"], "sh: the bench can't find a container that a shell"),
        (
            ["/bin/bash", "-lc", "cd app && exec docker --context far run shop"],
            "bash: the bench can't find a container",
        ),
        (["sudo", "sh", "-c", "docker compose up"], "sh: the bench can't find a container that a shell starts"),
    ],
)
def test_containers_that_the_bench_could_not_find_are_refused_in_one_line(words: list[str], why: str) -> None:
    with pytest.raises(BadInputError) as refused:
        container_command(words)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_suite_with_such_a_command_is_refused_before_anything_starts(tmp_path: Path) -> None:
    command = "sh -c 'docker run -p 127.0.0.1:{port}:8000 shop'"
    with pytest.raises(BadInputError, match=r"^s\.toml: servers\.shop\.command: sh: the bench can't find a container"):
        suite_from({"servers": {"shop": {"command": command}}}, tmp_path / "s.toml", "s.toml")


@pytest.mark.parametrize(
    ("options", "named"),
    [("", ""), ("--cidfile id", "id"), ("--cidfile=a/id", "a/id"), ("--cidfile x --cidfile id", "id")],
)
def test_the_file_with_the_id_is_that_of_the_command_or_in_the_folder_of_the_server(
    options: str, named: str, tmp_path: Path
) -> None:
    words = f"docker -H tcp://far:2376 run {options} --rm shop --cidfile".split()
    container = Container(words, tmp_path / "own", {}, tmp_path)
    if named:
        assert container.words == words
    else:
        at = words.index("run") + 1
        assert container.words == [*words[:at], "--cidfile", str(tmp_path / "own" / "container-id"), *words[at:]]
