"""A streamed file, each line of which Starlette fetches in a thread."""

from io import BytesIO

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

app = FastAPI()


def as_csv() -> bytes:
    return b"".join(b"%d,customer,%d\n" % (number, number % 7) for number in range(2000))


@app.get("/report")
async def report() -> StreamingResponse:
    file = BytesIO(as_csv())
    return StreamingResponse(file, media_type="text/csv")
