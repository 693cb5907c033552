"""One request at a time: all others queue, including pings; needs a proxy for protection from slow clients."""

from flask import Response

from common.kits.flask_kit import answer, serve, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
