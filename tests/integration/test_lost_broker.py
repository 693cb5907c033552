"""A Celery worker outlives its broker: what it can't put back or acknowledge is a lost connection, and no end."""

from types import SimpleNamespace

import pytest


@pytest.mark.parametrize("connection", [None, SimpleNamespace(client=None)])
def test_a_channel_that_was_closed_is_a_connection_that_was_lost(connection: object) -> None:
    from common.kits.celery_app import app  # takes long, and only the process that runs this needs it

    lost = app.connection_for_read("redis://127.0.0.1:1/0")
    channel = object.__new__(lost.transport.Channel)
    channel.connection = connection
    with pytest.raises(lost.connection_errors):  # which Celery's worker survives, and kombu's close() passes over
        channel._connparams()
    assert AttributeError not in lost.connection_errors
