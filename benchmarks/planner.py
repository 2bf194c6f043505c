"""How long people wait: ``ledgerwood plan`` in a process of its own, and the planner page in a real Chromium.

    python -m benchmarks.planner [--cold] [--chromium PATH]

``plan`` is measured from the start of the process to its end, with the kernels in the on-disk cache; ``--cold``
adds one run with an empty one. The page is measured from navigation to the last of its five charts, a slider from
its event to the last chart redrawn, as the page itself marks them. Bytecode is cached, as that of an installed
package is. Nothing is asserted: the numbers depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

RECIPES = ("auto", "tr_cyc", "xgb", "xgb_ada", "dp_ebm", "sarus")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
MOVE = """async (id) => {
  const slider = document.getElementById(id);
  const before = performance.getEntriesByName("quick").length;
  const start = performance.now();
  slider.value = Number(slider.value) + 3;
  slider.dispatchEvent(new Event("input"));
  while (performance.getEntriesByName("quick").length === before) await new Promise((done) => setTimeout(done, 2));
  return performance.getEntriesByName("quick").at(-1).startTime - start;
}"""


def seconds_of_plan(recipe: str, environment: dict[str, str]) -> float:
    start = time.perf_counter()
    words = [sys.executable, "-m", "ledgerwood", "plan", "--recipe", recipe]
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def measure_plans(environment: dict[str, str], *, cold: bool) -> None:
    for recipe in RECIPES:
        seconds_of_plan(recipe, environment)  # fills the caches
        times = [seconds_of_plan(recipe, environment) for _ in range(5)]
        print(f"plan --recipe {recipe:8} {statistics.median(times):5.2f} s (least {min(times):.2f})", flush=True)
    if cold:
        for recipe in ("auto", "xgb"):
            with tempfile.TemporaryDirectory() as empty:
                taken = seconds_of_plan(recipe, {**environment, "NUMBA_CACHE_DIR": empty})
            print(f"plan --recipe {recipe:8} {taken:5.2f} s with no kernel in the cache", flush=True)


def measure_page(address: str, path: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        for recipe in RECIPES:
            page = browser.new_page(viewport={"width": 1360, "height": 900})
            page.set_default_timeout(120_000)
            page.goto(f"{address}?recipe={recipe}")
            ready = page.evaluate(_marked("quick"))
            exact = page.evaluate(_marked("exact"))
            moves = []
            for slider in ("epsilon-slider", "trees-slider", "rows-slider", "epsilon-slider", "trees-slider"):
                moves.append(page.evaluate(MOVE, slider))
                page.wait_for_selector("body:not(.busy)")
            shown = ", ".join(f"{move:.0f}" for move in moves)
            print(
                f"page {recipe:8} ready {ready:5.0f} ms, exact {exact:5.0f} ms; slider to charts {shown} ms", flush=True
            )
            page.close()
        browser.close()


def _marked(name: str) -> str:
    return f"""async () => {{
      while (!performance.getEntriesByName("{name}").length) await new Promise((done) => setTimeout(done, 2));
      return performance.getEntriesByName("{name}")[0].startTime;
    }}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cold", action="store_true")
    options.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    given: Any = options.parse_args()
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        measure_plans(environment, cold=given.cold)
        if given.chromium is None:
            print("no Chromium: the page was not measured")
            return
        command = [sys.executable, "-m", "ledgerwood", "serve", "--port", "0"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            time.sleep(3)  # it warms up while a person looks for the browser
            measure_page(address, given.chromium)
            server.terminate()


if __name__ == "__main__":
    main()
