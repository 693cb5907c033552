"""How a Celery worker takes a task from Redis: at no moment is it nowhere but in the memory of that worker.

kombu takes it with BRPOP and notes it as begun only then: a worker that is killed in between loses it for ever, as does
a reply to one that is gone already. Here it stands among those that are on their way until it stands among those begun.
"""

import time
from collections.abc import Iterable
from typing import Any

from kombu.transport import redis, virtual
from kombu.utils.json import dumps

LOST_AFTER_S = 10.0  # on its way: it takes some milliseconds, except where the worker is stopped

# Only if it is still there: else its worker has begun it, or another one has put it back.
_PUT_BACK = "if redis.call('LREM', KEYS[1], 1, ARGV[1]) > 0 then redis.call('RPUSH', KEYS[2], ARGV[1]) end"


def _on_its_way(queue: str) -> str:
    return f"{queue}-on-its-way"


def put_back(client: Any, queue: str, messages: Iterable[bytes] | None = None) -> None:
    """What was on its way to a worker that is lost is the next in its queue; None is for all of it."""
    for message in client.lrange(_on_its_way(queue), 0, -1) if messages is None else messages:
        client.eval(_PUT_BACK, 2, _on_its_way(queue), queue, message)


class _Begun(redis.QoS):
    """What can't be acknowledged, because the broker is lost, takes no place any more, or the worker would stand still.

    kombu counts it among those that it has for ever, and asks for no other one.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)  # type: ignore[no-untyped-call]
        self._since_s: dict[tuple[str, bytes], float] = {}  # of what is on its way to anybody

    def append(self, message: Any, delivery_tag: str) -> None:
        """As kombu's, in the same transaction in which it is not on its way any more."""
        told = message.delivery_info
        begun = dumps([message._raw, told["exchange"], told["routing_key"]])  # type: ignore[no-untyped-call]
        queue, taken = self.channel.taken
        with self.pipe_or_acquire() as pipe:
            pipe.zadd(self.unacked_index_key, {delivery_tag: time.time()}).hset(self.unacked_key, delivery_tag, begun)
            pipe.lrem(_on_its_way(queue), 1, taken).execute()
        virtual.QoS.append(self, message, delivery_tag)  # type: ignore[no-untyped-call]

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        try:
            super().reject(delivery_tag, requeue)  # type: ignore[no-untyped-call]
        finally:
            virtual.QoS.ack(self, delivery_tag)  # type: ignore[no-untyped-call]

    def restore_visible(self, *arguments: Any, **options: Any) -> None:
        """kombu calls this every 10 s: what has been on its way for that long, its worker is gone."""
        super().restore_visible(*arguments, **options)  # type: ignore[no-untyped-call]
        now_s = time.monotonic()
        with self.channel.conn_or_acquire() as client:
            queues = self.channel.active_queues
            there = [(queue, message) for queue in queues for message in client.lrange(_on_its_way(queue), 0, -1)]
            self._since_s = {one: self._since_s.get(one, now_s) for one in there}
            for (queue, message), since_s in self._since_s.items():
                if now_s - since_s >= LOST_AFTER_S:
                    put_back(client, queue, [message])


class Channel(redis.Channel):
    """kombu's, but for how it asks for the next message: BLMOVE in place of BRPOP."""

    QoS = _Begun
    priority_steps = [0]  # noqa: RUF012 (as in kombu; one list for all, because BLMOVE waits for one)
    taken: tuple[str, bytes] = "", b""
    _in_poll: Any
    _brpop_sent_at: Any

    def _brpop_start(self, timeout: float | None = None) -> None:
        queue = self._queue_cycle.rotate(self._queue_cycle.consume(1)[0])

        def took(message: bytes | None) -> tuple[str, bytes] | None:
            if message is None:
                return None
            self.taken = queue, message
            return self.taken

        self.client.set_response_callback("BRPOP", took)  # so it is read
        self._in_poll = self.client.connection
        self._brpop_sent_at = time.monotonic()
        wait_s = timeout or self.brpop_timeout or 0
        self._in_poll.send_command("BLMOVE", queue, _on_its_way(queue), "RIGHT", "LEFT", wait_s)
