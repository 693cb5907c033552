"""A job queue for the server: what it is given it sends through Celery, and it is told when an answer is there."""

import asyncio
import contextlib
import json
import os
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from billiard.exceptions import WorkerLostError
from celery import states
from celery.canvas import Signature
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from common.errors import one_line
from common.kits.celery_app import MOST_CRASHES, app, perform_job, trouble_with
from common.kits.celery_sending import KEY, ONCE_MORE, forget, post, send, take_back
from common.kits.jobs import Job
from common.logging_setup import quieten
from common.options import Options, quit_with
from common.redis_broker import private_broker
from common.responses import RefusedError, unready_while
from common.task import TaskError, TaskRun

LOOK_S = 0.5  # how often the broker is asked whether it is there
ANSWER_S = 1.0  # for so long it may take to say so, and for so long it may be away before those who wait are told
PAUSE_S = 0.1
LOOKS = 20  # at what the broker has answered in that time, because a loop may be busy for longer
_T = TypeVar("_T")
CONNECT_LIMIT_S, START_LIMIT_S = 5.0, 20.0
_AWAY, _NOT_TAKEN = "the broker of the queue does not answer", "the broker of the queue did not take the task"


@contextlib.asynccontextmanager
async def job_queue(options: Options) -> AsyncIterator["JobQueue"]:
    """A queue whose broker is the Redis that CELERY_BROKER_URL names, or one of its own with so many workers."""
    quieten("celery", "kombu", "redis")
    async with contextlib.AsyncExitStack() as stack:
        address = os.environ.get("CELERY_BROKER_URL")
        if not address:
            address = await stack.enter_async_context(private_broker(options.workers))
            app.conf.update(broker_url=address, result_backend=address)
        queue = await stack.enter_async_context(_open(address))
        await queue.must_work(options.task, address)
        yield queue


@contextlib.asynccontextmanager
async def _open(address: str) -> AsyncIterator["JobQueue"]:
    try:
        redis = Redis.from_url(address.replace("redis+socket://", "unix://"), retry=Retry(NoBackoff(), 0))
    except ValueError as error:
        quit_with(f"CELERY_BROKER_URL={address!r}: {one_line(error)}; expected such as redis://127.0.0.1:6379/0")
    app.conf.broker_transport_options = {"socket_timeout": ANSWER_S, "socket_connect_timeout": ANSWER_S, **ONCE_MORE}
    app.conf.update(redis_socket_timeout=ANSWER_S, redis_socket_connect_timeout=ANSWER_S)
    app.backend.on_task_call = lambda *_: None  # it would subscribe to each result, and read none
    with ThreadPoolExecutor(1, "celery") as sender:
        async with redis:
            queue = JobQueue(redis, sender)
            listening = asyncio.create_task(queue.keep_listening())
            try:
                yield queue
            finally:
                listening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await listening
                sender.shutdown(wait=False, cancel_futures=True)


class JobQueue:
    """Those who wait for an answer, and whether the broker is there."""

    def __init__(self, redis: "Redis", sender: ThreadPoolExecutor) -> None:
        self._redis, self._sender = redis, sender
        self._name = uuid.uuid4().hex  # all that is sent from here is called so, and we are told of that only
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._fetched: list[str] = []
        self._given_up: list[str] = []  # whose askers were told that the broker is away
        self._watched: weakref.WeakValueDictionary[str, asyncio.Event] = weakref.WeakValueDictionary()  # jobs
        self._sought: dict[str, asyncio.Future[Any]] = {}  # jobs that are looked for next
        self._loop = asyncio.get_running_loop()
        self._seeking: asyncio.Future[None] = self._loop.create_future()
        self._seeking.set_result(None)
        self._broker = ""  # which one it is: another number after it was started again
        self._asked_s = time.monotonic()
        self._away_since_s: float | None = self._asked_s
        unready_while(self.trouble)

    def trouble(self) -> str:
        """One line while the broker does not answer; empty if it does."""
        return "" if self._away_since_s is None else _AWAY

    async def result_of(self, job: Signature) -> TaskRun:
        """What came of it. If it is cancelled, and no worker has begun it, none will.

        Raises:
            TaskError: the task raised, or ended its process again and again.
            RefusedError: the broker is not there, or has gone.
        """
        found: dict[str, Any] = await self.outcome(job)
        return _run(found)

    async def outcome(self, job: Signature) -> Any:
        """The same for any job: what its function returned."""
        if self._is_away():
            raise RefusedError(self.trouble())
        name = f"{self._name}-{uuid.uuid4().hex}"
        self._waiting[name] = outcome = self._loop.create_future()
        sent = self._sender.submit(send, job, name)
        sent.add_done_callback(lambda _: self._tell_if_not_sent(sent, outcome))
        try:
            return await outcome
        except asyncio.CancelledError:
            if not sent.cancel():
                self._sender.submit(take_back, name)
            raise
        except RefusedError:
            self._given_up.append(name)
            raise
        finally:
            sent.cancel()
            del self._waiting[name]
            self._fetched.append(KEY + name)

    async def post(self, task: str) -> str:
        """Takes a job and gives its name; when this returns the broker has it.

        Raises:
            RefusedError: the broker is not there, or has enough to do.
        """
        if self._is_away():
            raise RefusedError(self.trouble())
        name = f"{self._name}-{uuid.uuid4().hex}"
        self._waiting[name] = told = self._loop.create_future()  # that the broker has gone; or what came of it already
        sent = asyncio.wrap_future(self._sender.submit(post, perform_job.s(task), name))
        sent.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody may ask for that any more
        try:
            await asyncio.wait([sent, told], return_when=asyncio.FIRST_COMPLETED)
            if isinstance(error := told.exception() if told.done() else sent.exception(), RefusedError):
                raise error
            if error and not isinstance(error, TaskError):
                raise RefusedError(_NOT_TAKEN)
        finally:
            sent.cancel()
            del self._waiting[name]
        return name

    async def find(self, name: str, wait_s: float) -> Job | None:
        """The job of that name, as soon as it is done or the time is over; None if there is none (any more).

        Raises:
            RefusedError: the broker is not there.
        """
        told = self._watched.setdefault(name, asyncio.Event())
        job = await self._look(name)
        if job is not None and job.state and wait_s:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), wait_s)
            job = await self._look(name)
        return job

    async def _look(self, name: str) -> Job | None:
        found = self._sought.setdefault(name, self._loop.create_future())
        if self._seeking.done():
            self._seeking = asyncio.create_task(self._seek())
        if (told := await asyncio.shield(found)) is None:
            return None
        if told["status"] == states.SUCCESS:
            return Job(run=_run(told["result"]))
        if told["status"] == states.FAILURE:
            return Job(error=_why(told["result"]))
        return Job("running" if told["status"] == states.STARTED else "queued")

    async def _seek(self) -> None:
        """All that is looked for at the same time is asked for at once, over one connection."""
        while sought := self._sought:
            self._sought = {}
            try:
                told: list[Any] = await _in_time(self._redis.mget([KEY + name for name in sought]))
            except (RedisError, OSError):
                for found in sought.values():
                    _refuse(found, self.trouble() or _AWAY)
                continue
            for found, text in zip(sought.values(), told, strict=True):
                found.set_result(None if text is None else json.loads(text))

    async def must_work(self, task: str, address: str) -> None:
        """Ends the server with one line if there is no broker, no worker, or none that knows the task."""
        if not await self._comes_true(lambda: not self.trouble(), CONNECT_LIMIT_S):
            quit_with(f"no broker at CELERY_BROKER_URL={address!r}; start it, or unset that")
        asked = asyncio.create_task(self.outcome(trouble_with.s(task)))
        if not await self._comes_true(asked.done, START_LIMIT_S):
            asked.cancel()
            quit_with("no Celery worker answers; start one: celery --app common.kits.celery_app worker")
        if trouble := await asked:
            quit_with(f"a Celery worker says: {trouble}")

    @staticmethod
    async def _comes_true(condition: Callable[[], object], limit_s: float) -> bool:
        deadline_s = time.monotonic() + limit_s
        while not condition() and time.monotonic() < deadline_s:  # noqa: ASYNC110 (tests of what is no event)
            await asyncio.sleep(PAUSE_S / 10)
        return bool(condition())

    async def keep_listening(self) -> None:
        """Gives answers to those who wait for them, and notices when the broker goes and comes back."""
        while True:
            self._asked_s = time.monotonic()
            with contextlib.suppress(RedisError, OSError):  # a TimeoutError is one
                async with self._redis.pubsub() as channel:
                    await _in_time(channel.psubscribe(f"{KEY}{self._name}-*"))
                    await _in_time(self._welcome_back())
                    await self._listen(channel)
            if self._away_since_s is None:
                self._away_since_s = self._asked_s
            if self._is_away():
                self._tell_all(self.trouble())
            await asyncio.sleep(PAUSE_S)

    async def _listen(self, channel: PubSub) -> None:
        """Returns never; raises when the broker does not answer."""
        reading = asyncio.create_task(self._read(channel))
        try:
            while True:
                await _in_time(forget(self._redis, self._fetched, self._given_up))
                await asyncio.wait([reading], timeout=LOOK_S)
                if reading.done():
                    reading.result()
                self._asked_s = time.monotonic()
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, RedisError, OSError):
                await reading

    async def _read(self, channel: PubSub) -> None:
        async for message in channel.listen():
            if message["type"] == "pmessage":
                self._take(message["data"])

    async def _welcome_back(self) -> None:
        broker = (await self._redis.info("server"))["run_id"]
        if self._broker not in ("", broker):
            self._tell_all("the broker of the queue was started again, and may have lost the task")
        self._broker, self._away_since_s = broker, None
        if names := [KEY + name for name in self._waiting]:  # whose answers may have come while nobody listened
            for found in filter(None, await self._redis.mget(names)):
                self._take(found)

    def _take(self, told: Any) -> None:
        """What Celery tells of a task: `{"task_id": ..., "status": ..., "result": ...}`."""
        found = json.loads(told)
        if found["status"] in states.READY_STATES and (event := self._watched.get(found["task_id"])):
            event.set()
        outcome = self._waiting.get(found["task_id"])
        if outcome is None or outcome.done():
            return
        if found["status"] == states.SUCCESS:
            outcome.set_result(found["result"])
        elif found["status"] == states.FAILURE:
            outcome.set_exception(TaskError(_why(found["result"])))

    def _is_away(self) -> bool:
        return self._away_since_s is not None and time.monotonic() - self._away_since_s >= ANSWER_S

    def _tell_all(self, reason: str) -> None:
        for outcome in self._waiting.values():
            _refuse(outcome, reason)

    def _tell_if_not_sent(self, sent: Future[Any], outcome: asyncio.Future[Any]) -> None:
        if not sent.cancelled() and sent.exception() is not None:
            self._loop.call_soon_threadsafe(_refuse, outcome, _NOT_TAKEN)


async def _in_time(asking: Awaitable[_T]) -> _T:
    """What the broker answers; raises TimeoutError: nothing, though this loop has looked several times meanwhile."""
    answer = asyncio.ensure_future(asking)
    try:
        for _ in range(LOOKS):
            await asyncio.wait([answer], timeout=ANSWER_S / LOOKS)
            if answer.done():
                return await answer
        raise TimeoutError
    finally:
        answer.cancel()


def _refuse(outcome: asyncio.Future[Any], reason: str) -> None:
    if not outcome.done():
        outcome.set_exception(RefusedError(reason))


def _run(found: dict[str, Any]) -> TaskRun:
    return TaskRun(**{**found, "stretches": tuple(tuple(one) for one in found["stretches"])})


def _why(failure: dict[str, Any]) -> str:
    """One line, from how Celery tells of an exception."""
    if failure["exc_type"] == WorkerLostError.__name__:
        return f"the task ended its process {MOST_CRASHES} times in a row: given up"
    said = failure["exc_message"]
    text = " ".join(" ".join(map(str, said if isinstance(said, list) else [said])).split())
    return text if failure["exc_type"] in (TaskError.__name__, "UnknownTaskError") else f"{failure['exc_type']}: {text}"
