"""A process of its own for the answers that take long, so that the quick ones never share an interpreter with them.

``python -m ledgerwood.app.web.worker`` reads one question per line, a JSON list of its name and its request, and writes
one JSON object per line: ``{"answer": ...}``, or ``{"error": ...}`` for a request that cannot be planned.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, Self

from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.app.web import answers
from ledgerwood.errors import LedgerwoodError

QUESTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "exact": lambda given: answers.exact(PlanRequest.from_mapping(given)),
    "rest": lambda given: answers.rest(PlanRequest.from_mapping(given)),
    "afford": lambda given: answers.afford(answers.Wish.from_mapping(given)),
}


class WorkerStopped(Exception):
    """The process has ended before it answered."""


class Worker:
    """The process, seen from the server; it is started anew if it has ended."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._running()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def ask(self, question: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, as soon as those asked before are given."""
        with self._turn:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps([question, given]) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
            if not line:
                self.stop()
                raise WorkerStopped
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise LedgerwoodError(found["error"])
        answer: dict[str, Any] = found["answer"]
        return answer

    def stop(self) -> None:
        """End the process, whatever it is at."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # a question that nobody reads any more
                        pipe.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            # -m alone would look for modules in the working folder first, which may be anybody's: search where we do.
            command = [sys.executable, "-P", "-m", "ledgerwood.app.web.worker"]
            places = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": places}
            # A session of its own: Ctrl-C is for the server, which stops it.
            self._process = subprocess.Popen(command, start_new_session=True, **pipes)
        return self._process


def main(questions: IO[str], replies: IO[str]) -> None:
    """Answer until there are no more questions: the server has gone.

    >>> import io
    >>> main(io.StringIO('["afford", {"recipe": "tr", "trees": 5, "epsilon": -1}]'), sys.stdout)
    {"error": "epsilon must lie between 0.001 and 100, got epsilon=-1"}
    """
    for line in questions:
        question, given = json.loads(line)
        try:
            found: dict[str, Any] = {"answer": QUESTIONS[question](given)}
        except LedgerwoodError as error:
            found = {"error": str(error)}
        replies.write(json.dumps(found, allow_nan=False) + "\n")
        replies.flush()


def _warm_up() -> None:
    from ledgerwood.accounting.accountant.bounded_range.recursion import load_kernels

    answers.exact(PlanRequest())
    load_kernels()  # a page asks often: compiled kernels pay
    answers.exact(PlanRequest(recipe="xgb"))


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(5)  # the quick answers and the browser go first
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    try:
        main(sys.stdin, sys.stdout)
    except BrokenPipeError:  # the server has gone before it heard the answer
        os._exit(0)
