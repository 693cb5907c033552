"""A password hash on the event loop, computed in C without the GIL."""

import hashlib

from fastapi import FastAPI

app = FastAPI()


def hash_password(password: bytes) -> str:
    return hashlib.pbkdf2_hmac("sha256", password, b"salt", 60_000).hex()


@app.get("/report")
async def report() -> str:
    return hash_password(b"secret")
