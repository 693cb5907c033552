"""The function of an application that answers a request, found in its source code."""

from pathlib import Path

import pytest

from under_siege.profile.route_handler import endpoint_of

MAIN = """
from fastapi import FastAPI
from shop.reports import router
app = FastAPI()
app.include_router(router, prefix="/api")

@app.get("/export")
async def export():
    rows = read()
    return StreamingResponse(rows)

@app.post("/export")
def upload(file): ...
"""
REPORTS = """
from fastapi import APIRouter
router = APIRouter()

@router.get("/reports/{year}")
def report(year: int):
    return year
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/main.py").write_text(MAIN)
    (tmp_path / "shop/reports.py").write_text(REPORTS)
    (tmp_path / "other.py").write_text(MAIN)  # the server does not import it
    return tmp_path


@pytest.mark.parametrize(
    ("method", "path", "lines"),
    [
        ("GET", "/export?year=2026", [("shop/main.py", 8, "async"), ("shop/main.py", 10, "async")]),
        ("POST", "/export", [("shop/main.py", 13, "app")]),
        ("GET", "/api/reports/2026", [("shop/reports.py", 6, "app"), ("shop/reports.py", 7, "app")]),
        ("GET", "/unknown", []),
    ],
)
def test_the_route_of_a_request_is_found_in_the_modules_that_the_server_imports(
    method: str, path: str, lines: list[tuple[str, int, str]], folder: Path
) -> None:
    found = endpoint_of(["python", "-m", "uvicorn", "--port", "8000", "shop.main:app"], folder, method, path)
    assert [(frame.file, frame.line, frame.kind) for frame in found] == lines


def test_no_function_is_named_if_several_have_a_route_for_the_request(folder: Path) -> None:
    (folder / "shop/reports.py").write_text(f'{REPORTS}\n@router.get("/export")\ndef export(): ...\n')
    assert endpoint_of(["uvicorn", "shop.main:app"], folder, "GET", "/export") == []


def test_a_script_is_searched_like_a_module(folder: Path) -> None:
    (found, _) = endpoint_of(["python", "shop/main.py"], folder, "GET", "/export")
    assert (found.name, found.place) == ("export", "shop/main.py:8")
