"""One request at a time (Flask's development server): all others queue, including pings."""

from flask import Response

from common.flask_kit import answer, serve, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(app.config["OPTIONS"].task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
