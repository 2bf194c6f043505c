"""A real server in a process of its own, and a real Chromium: Debian's, never a download."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 90_000  # milliseconds: machines that run tests may be busy


def chromium() -> str | None:
    """The browser's path, or None."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """``ledgerwood serve`` on a free port of this machine."""
    command = [sys.executable, "-m", "ledgerwood", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline().strip()
        if not line.startswith("http://127.0.0.1:"):
            process.kill()
            raise AssertionError(f"the server did not start: {line}\n{process.stderr.read()}")
        yield line
        process.terminate()
        _, errors = process.communicate(timeout=120)
    assert errors == ""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, or a skip that says why."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium, or set CHROMIUM to its path")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    """A fresh profile that may use the clipboard."""
    opened = browser.new_context(viewport={"width": 1360, "height": 900}, color_scheme="light")
    opened.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.set_default_timeout(PATIENCE)
    yield opened
    opened.close()


@pytest.fixture
def page(context: Any, address: str) -> Iterator[Any]:
    """A page that fails the test if a script fails, or if it asks anything of another machine."""
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(f"script: {error}"))
    opened.on("console", lambda m: problems.append(f"console: {m.text}") if m.type == "error" else None)
    opened.on("request", lambda r: None if _is_ours(r.url, address) else problems.append(f"request: {r.url}"))
    yield opened
    assert [p for p in problems if "the server responded with a status of" not in p] == []


def _is_ours(url: str, address: str) -> bool:
    return url.startswith((address, "blob:" + address, "data:"))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: LEDGERWOOD_SCREENSHOTS=docs/images renews those of the documentation."""
    chosen = os.environ.get("LEDGERWOOD_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
