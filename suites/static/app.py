"""Files from Flask, and WhiteNoise in front of it; each answer says which of them gave it, and how that is built."""

import os
from pathlib import Path

import flask

TREE = os.environ["TREE"]

flask_app = flask.Flask(__name__, static_folder=None)


@flask_app.get("/static/<path:name>")
def file(name):
    response = flask.send_from_directory(TREE, name)
    response.headers["X-Served-By"] = "flask"
    return response


@flask_app.get("/ping")
def ping():
    return "pong"


def in_front_of_it(prefix):
    """WhiteNoise, which knows the files below that prefix and passes everything else on."""
    from whitenoise import WhiteNoise, base, media_types, responders, string_utils

    compiled = {Path(module.__file__).suffix == ".so" for module in (base, media_types, responders, string_utils)}
    how = {frozenset({True}): "compiled", frozenset({False}): "pure"}.get(frozenset(compiled), "half compiled")

    def says_so(headers, path, url):  # noqa: ARG001 (so WhiteNoise calls it)
        headers["X-Served-By"] = f"whitenoise, {how}"

    return WhiteNoise(flask_app, root=TREE, prefix=prefix, add_headers_function=says_so)


def whitenoise():
    """As it is meant."""
    return in_front_of_it("static/")


def published():
    """As it was published: what was asked for is nothing that WhiteNoise has, so Flask serves it."""
    return in_front_of_it("assets/")
