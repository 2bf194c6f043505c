"""The planner page as people use it, in a real browser against the real server."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest

from ledgerwood.accounting import Plan
from ledgerwood.app import report
from ledgerwood.app.leaf_noise import LeafNoise, trees_for_error
from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.learners import PrivateBoostingClassifier, Schema

SMALL = "?recipe=xgb&trees=6&depth=2"  # little to compute


def idle(page: Any) -> None:
    """Wait until the tightest accountant has answered."""
    page.wait_for_selector("body:not(.busy) #price svg")
    page.wait_for_selector('#results[aria-busy="false"]')


def query(page: Any) -> dict[str, str]:
    search = str(page.evaluate("() => location.search"))  # page.url lags behind
    return {name: values[0] for name, values in parse_qs(search[1:]).items()}


def cells(page: Any, table: str) -> list[list[str]]:
    rows = page.locator(f"#{table} tbody tr")
    return [[c.strip() for c in row.locator("th, td").all_text_contents()] for row in rows.all()]


def test_the_page_shows_the_plan_that_would_be_spent(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    plan = PlanRequest(recipe="xgb", trees=6, depth=2).plan()
    assert page.locator("#statement").text_content() == plan.statement()
    shown = {row[0]: row for row in cells(page, "budget-table")}
    for release in plan.releases():
        assert shown[release.label][1] == str(release.times)
        assert f"{release.scale:.4g}" in shown[release.label][2]
    for chart in ("price", "leaf", "budget", "profile", "tradeoff"):
        assert page.locator(f"#{chart} svg").count() == 1
        assert page.locator(f"#{chart}[role=img]").get_attribute("aria-label")
        assert len(cells(page, f"{chart}-table")) >= 1
    page.wait_for_selector("#methods-table tr.best")
    assert "Optimal" in (page.locator("#methods-table tr.best th").text_content() or "")
    assert "in 100 people" in (page.locator("#attack").text_content() or "")
    assert "never any data" in " ".join((page.locator("header").text_content() or "").split())


def test_the_optimal_curve_follows_and_is_marked_as_computing(page: Any, address: str) -> None:
    held: list[Any] = []
    page.route("**/api/exact", lambda route: held.append(route))
    page.goto(address + SMALL)
    page.wait_for_selector("#price svg")
    page.wait_for_selector("#computing:not([hidden])")
    heads = page.locator("#price-table thead th").all_text_contents()
    assert "Rényi DP (Theorem 1)" in heads and "Optimal adaptive composition" not in heads
    assert page.locator("#download").is_disabled()
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    idle(page)
    assert "Optimal adaptive composition" in page.locator("#price-table thead th").all_text_contents()
    assert page.locator("#computing").is_hidden() and page.locator("#download").is_enabled()


@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", "2.5"), ("rows", "500000"), ("features", "3"), ("trees", "9"), ("depth", "3"), ("share", "0.4")],
)
def test_every_number_and_its_slider(page: Any, address: str, name: str, value: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    page.fill(f"#{name}", value)
    assert query(page)[name] == value
    slider = page.locator(f"#{name}-slider")
    before = float(page.input_value(f"#{name}"))
    slider.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    after = float(page.input_value(f"#{name}"))
    assert after > before and float(query(page)[name]) == after
    assert slider.get_attribute("aria-valuetext")
    idle(page)
    assert page.locator("#problem").is_hidden()
    command = page.locator("#command").text_content() or ""
    words = shlex.split(command)
    assert float(words[words.index(f"--{name}") + 1]) == after


def test_recipe_delta_and_neighbours(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    page.fill("#delta", "1/1000000")
    page.select_option("#neighbours", "replace_one")
    page.select_option("#recipe", "xgb")
    idle(page)
    assert query(page)["delta"] == "0.000001" and query(page)["neighbours"] == "replace_one"
    statement = page.locator("#statement").text_content() or ""
    assert "delta=1e-06" in statement and "replaced by another" in statement
    page.fill("#delta", "")
    idle(page)
    assert "delta" not in query(page)
    assert "delta=1e-06" in (page.locator("#statement").text_content() or "")
    assert page.locator("#cautions").is_hidden()
    page.fill("#delta", "0.1")
    idle(page)
    assert "delta=0.1 is not small" in (page.locator("#cautions").text_content() or "")


def test_the_auto_estimator_is_planned_as_train_would_train_it(page: Any, address: str) -> None:
    def what() -> str:
        idle(page)
        return str(page.locator("#what").text_content())

    page.goto(address)
    facts = PlanRequest()
    assert facts.what() in what() and "AdaSSP" in facts.what()
    assert page.locator("#statement").text_content() == facts.plan().statement()
    assert page.input_value("#trees") == str(facts.to_dict()["trees"]) and "trees" not in query(page)
    assert [row[0] for row in cells(page, "budget-table")] == ["cross products", "gradients", "leaf"]
    assert [row[0] for row in cells(page, "why-table")][:1] == ["linear_share"]
    page.fill("#trees", "20")
    assert "auto: 20 trees" in what() and page.locator("#why").is_hidden()
    page.click("#choose")
    assert facts.what() in what() and "trees" not in query(page)
    page.select_option("#classes", "0")
    assert what() and "half of the target's range" in (page.locator("#leaf-lead").text_content() or "")
    assert page.locator("#statement").text_content() == PlanRequest(classes=0).plan().statement()
    assert "--task regression" in (page.locator("#command").text_content() or "")
    page.click("form summary")
    page.fill("#unit_rows", "3")
    page.fill("#learned", "2")
    what()
    asked = PlanRequest(classes=0, unit_rows=3, learned=2)
    assert page.locator("#statement").text_content() == asked.statement(asked.plan())
    assert "at most 3 rows" in asked.statement(asked.plan())
    page.fill("#categories", "99")
    page.wait_for_selector("#problem:not([hidden])")
    assert "at most the number of features" in (page.locator("#problem").text_content() or "")
    page.goto(address + "?classes=7&categories=3")
    assert what() and page.input_value("#classes") == "7" and page.input_value("#categories") == "3"
    assert page.locator("#statement").text_content() == PlanRequest(classes=7, categories=3).plan().statement()


def test_a_linear_model_has_no_leaves(page: Any, address: str) -> None:
    page.goto(address + "?recipe=linear&a_recipe=xgb&a_trees=3&a_depth=1")
    idle(page)
    page.wait_for_selector("#compare-table tbody tr")
    assert page.locator("#price-title").text_content() == "What more rounds cost"
    assert page.locator("#leaf-panel").is_hidden()
    for name in ("trees", "depth", "share"):
        assert page.locator(f"#{name}").is_hidden() and page.locator(f"#{name}").is_disabled()
    page.wait_for_function("() => document.getElementById('answer-leaf').textContent.includes('no leaves')")
    assert page.locator("#statement").text_content() == PlanRequest(recipe="linear").plan().statement()
    page.select_option("#recipe", "xgb")
    idle(page)
    assert page.locator("#leaf svg").is_visible() and page.locator("#trees").is_enabled()


def test_the_address_holds_the_state(page: Any, address: str) -> None:
    page.goto(address + "?recipe=xgb&trees=7&depth=2&epsilon=3&a_recipe=xgb&a_trees=4&a_depth=1&a_epsilon=0.5")
    idle(page)
    page.wait_for_selector("#compare-table tbody tr")
    assert page.input_value("#epsilon") == "3" and page.input_value("#trees") == "7"
    rows = {row[0]: row[1:] for row in cells(page, "compare-table")}
    assert rows["Trees"] == ["4", "7"] and rows["Epsilon"] == ["0.5", "3"]
    page.reload()
    idle(page)
    page.wait_for_selector("#compare-table tbody tr")
    assert page.input_value("#trees") == "7" and query(page)["a_trees"] == "4"


def test_the_questions_people_ask_are_answered(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    page.wait_for_selector("#answer-leaf strong")
    facts = PlanRequest(recipe="xgb", trees=6, depth=2)
    plan = facts.plan()

    def told(name: str) -> str:
        return str(page.locator(f"#answer-{name}").text_content())

    for release in plan.releases():
        assert f"{release.scale:.4g} for each of {release.times} {release.label} releases" in told("noise")
    assert "ε = 1;" in told("epsilon") and "0.5 × this noise: ε ≤ 2" in told("epsilon")
    assert "Optimal adaptive composition" in told("method") and "less ε than Rényi DP" in told("method")
    assert f"off by about {LeafNoise.of(facts, plan).error(50):.3g}" in told("leaf")
    page.fill("#leaf-error", "0.25")
    page.fill("#leaf-rows", "500")
    most = trees_for_error(facts, 500, 0.25)
    page.wait_for_function(f"() => document.getElementById('answer-leaf').textContent.includes('afford {most} trees')")
    assert query(page)["leaf_rows"] == "500" and query(page)["leaf_error"] == "0.25"
    page.reload()
    page.wait_for_selector("#answer-leaf strong")
    assert page.input_value("#leaf-rows") == "500" and f"afford {most} trees" in told("leaf")
    page.fill("#leaf-rows", "")
    assert "Rows in the leaf" in (page.locator("#problem").text_content() or "")
    page.click("#reset")
    assert query(page) == {} and page.input_value("#leaf-rows") == "50"


def test_two_plans_are_compared(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    assert page.locator("#compare").is_hidden()
    page.click("#pin")
    page.fill("#epsilon", "4")
    idle(page)
    rows = {row[0]: row[1:] for row in cells(page, "compare-table")}
    assert rows["Epsilon"] == ["1", "4"]
    worse, better = (float(text.replace(",", "")) for text in rows["Error of a leaf of 500 rows"])
    assert better < worse
    page.click("#unpin")
    assert page.locator("#compare").is_hidden() and not any(name.startswith("a_") for name in query(page))
    page.click("#reset")
    assert query(page) == {} and page.input_value("#epsilon") == "1"


def test_copy_and_download(page: Any, address: str, tmp_path: Path) -> None:
    page.goto(address + SMALL)
    idle(page)
    facts = PlanRequest(recipe="xgb", trees=6, depth=2)
    for button, text in [
        ("copy-statement", facts.plan().statement()),
        ("copy-python", facts.python()),
        ("copy-command", facts.command()),
    ]:
        page.click(f"#{button}")
        page.wait_for_selector("#copied:not(:empty)")
        assert page.evaluate("() => navigator.clipboard.readText()") == text
    namespace: dict[str, Any] = {}
    exec(facts.python().replace("print(plan.table())", ""), namespace)
    with page.expect_download() as waiting:
        page.click("#download")
    assert waiting.value.suggested_filename == "plan.json"
    waiting.value.save_as(tmp_path / "plan.json")
    assert Plan.from_json((tmp_path / "plan.json").read_text()) == namespace["plan"] == facts.plan()


def test_bad_values_are_explained_and_nothing_breaks(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    page.fill("#trees", "0")
    assert "whole number between" in (page.locator("#problem").text_content() or "")
    assert page.get_attribute("#trees", "aria-invalid") == "true"
    page.fill("#trees", "5")
    idle(page)
    assert page.locator("#problem").is_hidden() and page.get_attribute("#trees", "aria-invalid") == "false"
    page.fill("#delta", "seven")
    assert "1/32561" in (page.locator("#problem").text_content() or "")
    page.goto(address + "?recipe=unicorn&trees=5")
    page.wait_for_selector("#problem:not([hidden])")
    assert "recipe must be one of" in (page.locator("#problem").text_content() or "")
    page.select_option("#recipe", "xgb")
    idle(page)
    assert page.locator("#problem").is_hidden()


def test_a_server_that_went_away_is_said_so(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    page.route("**/api/*", lambda route: route.fulfill(status=500, body=json.dumps({"error": "out of order"})))
    page.fill("#epsilon", "3")
    page.wait_for_selector("#problem:not([hidden])")
    assert "out of order" in (page.locator("#problem").text_content() or "")


def test_light_and_dark(browser: Any, page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)

    def paper() -> str:
        return str(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))

    light = paper()
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector('html[data-theme="dark"]')
    dark = paper()
    assert dark != light
    page.click("#theme")
    assert page.locator("html").get_attribute("data-theme") == "light" and paper() == light
    page.click("#theme")
    assert page.locator("#theme").text_content() == "Theme: dark" and paper() == dark
    page.reload()
    idle(page)
    assert page.locator("html").get_attribute("data-theme") == "dark"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 1360), ("light", 390)])
def test_axe_finds_no_violations(page: Any, address: str, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(address + SMALL + "&a_recipe=tr&a_trees=3&a_depth=2")
    idle(page)
    page.wait_for_selector("#methods-table tbody tr")
    page.wait_for_selector("#compare-table tbody tr")
    page.evaluate("() => document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_axe_finds_no_violations_beside_an_error(page: Any, address: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page.goto(address + "?recipe=unicorn&trees=5")
    page.wait_for_selector("#problem:not([hidden])")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_everything_is_reached_by_keyboard(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    reached = set()
    for _ in range(64):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id"))
    wanted = (
        "theme recipe epsilon epsilon-slider rows trees depth share delta neighbours pin reset leaf-rows leaf-error "
        "copy-python download"
    )
    assert set(wanted.split()) <= reached


def test_phone_width_has_no_sideways_scroll(page: Any, address: str, pictures: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address + SMALL)
    idle(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    for chart in ("price", "leaf", "profile", "tradeoff", "budget"):
        box = page.locator(f"#{chart} svg").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    page.screenshot(path=pictures / "planner-phone.png")


def test_pictures_for_the_documentation(page: Any, address: str, pictures: Path) -> None:
    page.goto(address)
    idle(page)
    page.wait_for_selector("#answer-leaf strong")
    page.screenshot(path=pictures / "planner.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    page.click("#pin")
    page.fill("#epsilon", "2")
    page.wait_for_function("() => document.getElementById('answer-epsilon').textContent.includes('ε = 2')")
    page.wait_for_selector("#answer-leaf strong")
    page.screenshot(path=pictures / "planner-compare-dark.png")
    assert (pictures / "planner.png").stat().st_size > 20_000


def test_a_slider_that_is_dragged_ends_where_it_was_left(page: Any, address: str) -> None:
    page.goto(address + SMALL)
    idle(page)
    page.locator("#epsilon-slider").focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    idle(page)
    epsilon = page.input_value("#epsilon")
    assert f"epsilon={float(epsilon):g}," in (page.locator("#statement").text_content() or "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations_in_a_report(context: Any, tmp_path: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1])
    model = PrivateBoostingClassifier(recipe="tr", n_trees=2, max_depth=2, epsilon=2.0, delta=1e-4, schema=schema)
    report(model.fit(X, (X[:, 0] > 0.5).astype(int)), tmp_path / "report.html")
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    page.goto((tmp_path / "report.html").as_uri())
    for width in (1000, 390):
        page.set_viewport_size({"width": width, "height": 900})
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
