"""A correct server that, like any server outside this project, does not report worker and timing in headers."""

from flask import Response

from common.flask_kit import serve, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return Response(perform(options.task).answer, content_type="text/plain")


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
