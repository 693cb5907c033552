"""Several processes, one request each at a time (gunicorn): every core computes, the ping waits; needs a proxy too."""

from flask import Response

from common.cpus import usable_cpus as default_workers
from common.serving.flask import answer, task_app
from common.serving.gunicorn import serve
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(app, options)
