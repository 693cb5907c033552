"""Flask with a generator, for gunicorn's gthread workers: each stream keeps a thread until its end."""

from events import blocking_events
from flask import Flask, Response

app = Flask(__name__)


@app.get("/health")
def health() -> str:
    return "ok"


@app.get("/<kind>")
def stream(kind: str) -> Response:
    return Response(blocking_events(kind), mimetype="text/event-stream")
