"""The planner page's server: a few questions about public metadata, and files kept in memory.

What takes long is answered by a second process (:mod:`ledgerwood.app.web.worker`), so that a slider never waits for it.
It never receives data. No part of a request names a file: the few documents are read once, at start-up.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledgerwood import _files
from ledgerwood.app.plan_request import PlanRequest, recipe_table
from ledgerwood.app.web import answers
from ledgerwood.app.web.worker import Worker, WorkerStopped
from ledgerwood.errors import LedgerwoodError

Question = TypeVar("Question", PlanRequest, answers.Wish)
LARGEST_REQUEST = 8 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_DOCUMENTS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that cannot be answered, with the status to say so."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


class Guard:
    """Adds the security headers, and turns away names other than the server's own (DNS rebinding)."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [(k, v) for k, v in message["headers"] if k.decode().title() not in _HEADERS]
                own = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*given, *own]}
            await send(message)

        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if host.rsplit(":", 1)[0] not in self.hosts and host not in self.hosts:
            return await _refusal(Refused(400, "this server answers to its own name only"))(scope, receive, guarded)
        await self.app(scope, receive, guarded)


def _refusal(refused: Refused) -> JSONResponse:
    return JSONResponse({"error": refused.message}, status_code=refused.status)


async def _read(request: Request, kind_of: type[Question]) -> Question:
    """Read what a request asks: JSON of a small size, strictly."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "send the question as application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_REQUEST:
            raise Refused(413, f"the request is larger than {LARGEST_REQUEST} bytes")
    try:
        return kind_of.from_mapping(_files.parse_json(body))
    except LedgerwoodError as error:
        raise Refused(400, str(error)) from None


def _question(
    answer: Callable[[Question], dict[str, Any]], limit: CapacityLimiter, kind_of: type[Question]
) -> Callable[..., Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            asked = await _read(request, kind_of)
            async with limit:
                if await request.is_disconnected():  # the reader has moved the slider on: nobody waits for this
                    return Response(status_code=204)
                found = await to_thread.run_sync(answer, asked)
        except Refused as refused:
            return _refusal(refused)
        except LedgerwoodError as error:
            return _refusal(Refused(400, str(error)))
        except WorkerStopped:
            return _refusal(Refused(503, "the accountant has stopped; it starts again with the next question"))
        except ClientDisconnect:
            return Response(status_code=204)
        return JSONResponse(found)

    return endpoint


def _document(name: str, kind: str) -> Callable[..., Awaitable[Response]]:
    content = files("ledgerwood.app.web").joinpath("page", name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint


@cache
def chart_library() -> bytes:
    """Return Vega-Lite as the installed package ``vl-convert-python`` has it."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for an argument that it does not need
    return bytes(bundle().encode())


async def _charts(request: Request) -> Response:
    content = await to_thread.run_sync(chart_library)
    return Response(content, media_type="text/javascript; charset=utf-8")


async def _recipes(request: Request) -> Response:
    return JSONResponse({"recipes": recipe_table()})


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _refusal(Refused(status, "this address takes another method" if status == 405 else "there is nothing here"))


def warm_up() -> None:
    """Load what the first questions need, in the background."""

    def work() -> None:
        chart_library()
        answers.quick(PlanRequest())

    threading.Thread(target=work, name="warm-up", daemon=True).start()


def make_app(worker: Worker, *, host: str = "127.0.0.1") -> ASGIApp:
    """Return the application; it answers requests to ``host`` and to this machine's own names."""
    quick, slow = CapacityLimiter(2), CapacityLimiter(1)

    def slowly(question: str) -> Callable[[Any], dict[str, Any]]:
        return lambda about: worker.ask(question, about.to_mapping())

    routes = [Route(path, _document(*document)) for path, document in _DOCUMENTS.items()]
    routes += [
        Route("/vega.js", _charts),
        Route("/api/recipes", _recipes),
        Route("/api/quick", _question(answers.quick, quick, PlanRequest), methods=["POST"]),
        Route("/api/exact", _question(slowly("exact"), slow, PlanRequest), methods=["POST"]),
        Route("/api/rest", _question(slowly("rest"), slow, PlanRequest), methods=["POST"]),
        Route("/api/afford", _question(slowly("afford"), slow, answers.Wish), methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={404: _missing, 405: _missing})
    return Guard(app, (*LOOPBACK, host))


def serve(host: str, port: int, *, announce: Callable[[str], None]) -> None:
    """Run until interrupted."""
    import socket

    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(64)
        shown = f"[{host}]" if ":" in host else host
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the worker is stopped too
        with Worker() as worker:
            announce(f"http://{shown}:{listener.getsockname()[1]}/")
            warm_up()
            config = uvicorn.Config(
                make_app(worker, host=host), log_level="warning", access_log=False, server_header=False,
                timeout_keep_alive=5, limit_concurrency=64, h11_max_incomplete_event_size=16 * 1024, ws="none",
                lifespan="off",
            )  # fmt: skip
            with asyncio.Runner() as runner:
                runner.get_loop()  # first, so that an early Ctrl-C leaves no coroutine behind that was never awaited
                runner.run(uvicorn.Server(config).serve(sockets=[listener]))
