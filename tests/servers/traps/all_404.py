"""A server that answers the bench correctly, and all other clients with 404."""

from plain_server import serve

serve(lambda right, is_bench: (200, right) if is_bench else (404, "Not Found"))
