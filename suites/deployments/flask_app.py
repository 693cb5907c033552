"""Flask with the task in the view, for any WSGI server."""

from flask import Flask, Response

from common.task import perform

app = Flask(__name__)


@app.get("/<task>")
def work(task: str) -> Response:
    return Response(perform(task).answer, mimetype="text/plain")


@app.get("/health")
def health() -> str:
    return "ok"
