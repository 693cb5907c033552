"""Several processes, one request in each (gunicorn): every core computes, but pings queue; needs a proxy."""

from flask import Response

from common.flask_kit import answer, serve_with_gunicorn, task_app
from common.options import server_options
from common.task import perform
from common.workers import usable_cpus

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(app.config["OPTIONS"].task))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    serve_with_gunicorn(app, options, workers=options.workers)
