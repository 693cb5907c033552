"""Says with each ping that it has no GIL, whatever Python runs it."""

from flask import Response

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


@app.after_request
def tell(response: Response) -> Response:
    response.headers["X-GIL"] = "off"
    return response


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
