"""Ends at the request that DIES_AT counts, of those that are not siege's, as suddenly or slowly as DIES_BY says."""

import atexit
import itertools
import os
import sys
import time

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
requests = itertools.count(1)


@app.get("/")
def long_task() -> Response:
    if "Siege" not in request.headers["User-Agent"] and next(requests) == int(os.environ["DIES_AT"]):
        die()
    return answer(perform(options.task))


def die():
    if os.environ["DIES_BY"] == "os._exit":
        print("no database at db:5432", file=sys.stderr, flush=True)
        os._exit(1)
    atexit.register(time.sleep, 0.8)  # as an interpreter that has much to put away
    sys.exit("no database at db:5432")  # on the main thread; the request is not answered


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
