"""FastAPI with a plain generator: Starlette runs each step of it in a thread of AnyIO's pool."""

from events import blocking_events
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.get("/health")
async def health() -> str:
    return "ok"


@app.get("/{kind}")
def stream(kind: str) -> StreamingResponse:
    return StreamingResponse(blocking_events(kind), media_type="text/event-stream")
