"""A greenlet for each request: code that looks blocking yields where it waits, but all greenlets share one thread."""

from gevent import monkey

monkey.patch_all()

from flask import Response

from common.kits.flask_kit import answer, task_app
from common.kits.gevent_kit import serve
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options)
