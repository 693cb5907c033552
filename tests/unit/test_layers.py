"""Import rules: each layer imports only itself and the layers above it in the table, without circles."""

from collections.abc import Iterator

from source_code import NAMES, imports

LAYERS = [
    "paths formatting secrets",
    "record",
    "load",
    "host",
    "suite",
    "judge",
    "measure",
    "show cli_options",
    "try_task trace capacity drill",
    "profile compare",
    "run",
    "report",
    "lesson",
    "cli __main__",
]
# Modules that run in a target's Python import only `common`. The load generator runs in that of the bench.
SCRIPTS = "under_siege.subprocess_scripts"
IN_TARGETS = (SCRIPTS, "under_siege.drill.task")
GENERATOR = f"{SCRIPTS}.client"
ALSO = {  # may be imported by the second
    f"{SCRIPTS}.cpu_speed_loop": "under_siege.host",
    f"{SCRIPTS}.no_server_baseline": "under_siege.measure",
    "under_siege.cli": "bench",
}


def layer_of(name: str) -> int:
    part = name.split(".")[1] if "." in name else "paths"
    return next(index for index, layer in enumerate(LAYERS) if part in layer.split())


def is_allowed(importer: str, imported: str) -> bool:
    if imported.startswith("common") or (imported in ALSO and importer.startswith(ALSO[imported])):
        return True
    if importer.startswith(IN_TARGETS):
        return imported.startswith(SCRIPTS) or (importer == GENERATOR and layer_of(imported) <= layer_of("x.load"))
    return importer.startswith("under_siege") and layer_of(imported) <= layer_of(importer)


def import_pairs() -> Iterator[tuple[str, str]]:
    """Yield the importing and the imported module for each import between modules of the project."""
    for name, path in NAMES.items():
        yield from ((name, other) for other in imports(path) & NAMES.keys() if other != name)


def test_modules_import_only_their_own_and_lower_layers() -> None:
    assert {f"{one} → {other}" for one, other in import_pairs() if not is_allowed(one, other)} == set()


def test_there_are_no_import_cycles() -> None:
    reached = {name: set(imports(path) & NAMES.keys()) for name, path in NAMES.items()}
    for _ in range(len(NAMES).bit_length()):  # each pass doubles the length of the paths
        reached = {name: others.union(*(reached[other] for other in others)) for name, others in reached.items()}
    assert {name for name, others in reached.items() if name in others} == set()
