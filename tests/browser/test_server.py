"""The planner's server: what it answers, and what it refuses."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlparse

import httpx
import pytest

from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.app.web.server import LARGEST_REQUEST

SMALL = {"recipe": "xgb", "trees": 5, "depth": 2}


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as opened:
        yield opened


@pytest.mark.parametrize("path", ["/", "/style.css", "/page.js", "/charts.js", "/icon.svg", "/vega.js", "/nothing"])
def test_every_reply_carries_a_strict_policy(client: httpx.Client, path: str) -> None:
    reply = client.get(path)
    assert reply.status_code == (404 if path == "/nothing" else 200)
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_page_names_no_other_machine(client: httpx.Client) -> None:
    for path in ("/", "/style.css", "/page.js"):
        text = client.get(path).text
        assert "http://" not in text and "https://" not in text and "//cdn" not in text


def test_answers_are_strict_json_about_the_same_plan(client: httpx.Client) -> None:
    quick, exact, rest = (client.post(f"/api/{q}", json=SMALL).json() for q in ("quick", "exact", "rest"))
    plan = PlanRequest(recipe="xgb", trees=5, depth=2).plan()
    assert exact["statement"] == plan.statement() and exact["plan"] == json.loads(plan.to_json())
    assert quick["method"] == "rdp" and exact["method"] == "optimal"
    assert {r["label"] for r in quick["releases"]} == {r.label for r in plan.releases()}
    assert "optimal" in exact["curves"] and "optimal" not in quick["curves"]
    (at_end,) = [p["epsilon"] for p in exact["curves"]["optimal"] if p["trees"] == 5]
    assert 0.999 < at_end <= 1.0
    assert rest["tightest"] == "optimal" and {m["method"] for m in rest["methods"]} >= {"pld", "rdp", "optimal"}
    assert exact["tradeoff"][0] == {"alarm": 0.0, "missed": pytest.approx(1.0, abs=1e-3)}
    missed = [p["missed"] for p in exact["tradeoff"]]
    assert missed == sorted(missed, reverse=True)
    deltas = [p["delta"] for p in exact["profile"]]
    assert deltas == sorted(deltas, reverse=True)


BAD = [
    (b"{", "not JSON"),
    (b"[1]", "JSON object"),
    (b"\xff\xfe", "not JSON"),
    (b'{"trees": NaN}', "not JSON"),
    (b'{"trees": 1.5}', "trees must be an integer"),
    (b'{"trees": true}', "trees must be an integer"),
    (b'{"trees": 1000000}', "trees must lie between"),
    (b'{"trees": 1e400}', "not a finite number"),
    (b'{"epsilon": "1"}', "epsilon must be a number"),
    (b'{"epsilon": -1}', "epsilon must lie between"),
    (b'{"delta": 0}', "delta must be positive"),
    (b'{"recipe": "../../etc/passwd"}', "recipe must be one of"),
    (b'{"recipe": ["xgb"]}', "recipe must be one of"),
    (b'{"neighbours": 3}', "neighbours must be"),
    (b'{"file": "/etc/passwd"}', "unknown field 'file'"),
    (b"[" * 4000, "not JSON"),
    (b'{"rows": ' + b"9" * 5000 + b"}", "not JSON"),
]


@pytest.mark.parametrize(("body", "message"), BAD, ids=[str(b[:24]) for b, _ in BAD])
@pytest.mark.parametrize("question", ["quick", "afford"])
def test_a_bad_question_gets_a_400_with_a_clear_message(
    client: httpx.Client, question: str, body: bytes, message: str
) -> None:
    reply = client.post(f"/api/{question}", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400
    assert message in reply.json()["error"]


def test_a_wish_about_leaves_is_checked_and_answered(client: httpx.Client) -> None:
    for wrong in ({"leaf_rows": 0}, {"leaf_rows": 1.5}, {"leaf_rows": True}, {"leaf_error": 0}, {"leaf_error": "1"}):
        reply = client.post("/api/afford", json={**SMALL, **wrong})
        assert reply.status_code == 400 and next(iter(wrong)) in reply.json()["error"]
    few, many = (client.post("/api/afford", json={**SMALL, "leaf_rows": n}).json() for n in (50, 5000))
    assert few["trees"] <= many["trees"] and few["error"] > many["error"]
    assert client.post("/api/quick", json={**SMALL, "leaf_rows": 50}).status_code == 400


def test_size_kind_method_and_host_are_limited(client: httpx.Client) -> None:
    large = b" " * (LARGEST_REQUEST + 1)
    json_type = {"content-type": "application/json"}
    assert client.post("/api/quick", content=large, headers=json_type).status_code == 413
    assert client.post("/api/quick", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.get("/api/quick").status_code == 405
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    assert client.get("/", headers={"host": "localhost:8765"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/page/index.html", "/index.html", "//etc/passwd", "/%00"]
)
def test_no_path_reaches_the_file_system(address: str, path: str) -> None:
    place = urlparse(address)
    asked = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)  # it leaves the path as it is
    asked.request("GET", path)
    reply = asked.getresponse()
    assert reply.status in (400, 404)
    assert b"root:" not in reply.read()
    asked.close()


def test_the_server_listens_on_loopback_by_default() -> None:
    import inspect

    from ledgerwood.app.cli.commands import serve

    assert inspect.signature(serve).parameters["host"].default == "127.0.0.1"
