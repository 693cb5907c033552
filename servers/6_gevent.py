"""A greenlet for each request: code that looks blocking yields where it waits, but all greenlets share one thread."""

from gevent import monkey

monkey.patch_all()

from flask import Response

from common.flask_kit import answer, serve_with_gevent, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(app.config["OPTIONS"].task))


if __name__ == "__main__":
    options = server_options()
    serve_with_gevent(app, options)
