"""Several processes, one request in each (gunicorn): every core computes, but pings queue; needs a proxy."""

from flask import Response

from common.cpus import usable_cpus as default_workers
from common.kits.flask_kit import answer, task_app
from common.kits.gunicorn_kit import serve
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(app, options)
