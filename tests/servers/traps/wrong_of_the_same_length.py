"""From the first request of the load on, everybody gets a wrong answer that is as long as the right one."""

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
loaded: list[bool] = []


@app.get("/")
def long_task() -> Response:
    run = perform(options.task)
    if "aiohttp" not in request.headers.get("User-Agent", ""):
        loaded.append(True)
    return Response(run.answer[::-1]) if loaded else answer(run)


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
