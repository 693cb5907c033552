"""In gunicorn's dirty workers: threads wait for HTTP clients, and a separate pool of processes performs the tasks."""

from dataclasses import asdict

from flask import Response
from gunicorn.dirty import DirtyApp, get_dirty_client

from common.flask_kit import answer, serve_with_gunicorn, task_app
from common.options import server_options
from common.task import TaskRun, perform
from common.workers import usable_cpus

APP = "13_gunicorn_dirty:LongTask"
app = task_app()


class LongTask(DirtyApp):
    def perform(self, task: str) -> dict:
        return asdict(perform(task))


@app.get("/")
def long_task() -> Response:
    run = get_dirty_client().execute(APP, "perform", app.config["OPTIONS"].task)
    return answer(TaskRun(**run))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    dirty = {"dirty_apps": [APP], "dirty_workers": options.workers}
    serve_with_gunicorn(app, options, worker_class="gthread", threads=40, **dirty)
