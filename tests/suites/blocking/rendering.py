"""A long page, rendered by Jinja on the event loop."""

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment

PAGE = "<table>{% for row in rows %}<tr><td>{{ row.id }}</td><td>{{ row.name }}</td></tr>{% endfor %}</table>"
template = Environment(autoescape=True).from_string(PAGE)
rows = [{"id": number, "name": f"customer <{number}>"} for number in range(900)]
app = FastAPI()


@app.get("/report")
async def report() -> HTMLResponse:
    return HTMLResponse(template.render(rows=rows))
