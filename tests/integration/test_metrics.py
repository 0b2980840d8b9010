"""Metrics of a real run, scraped by a real Prometheus; rules and every expression of the dashboard checked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import monitoring
from compose.embedded import Stack
from monitoring.dashboard import dashboard, expressions
from tests.conftest import unavailable
from tests.support import actions
from tests.support.clients import client_of
from tests.support.seeing import busy_config, fetch, free_port
from tests.waiting import wait_until

FOLDER = Path(monitoring.__file__).parent / "prometheus"


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        unavailable(f"no {name} on PATH")
    return found


def promtool(*arguments: str, told: str = "") -> subprocess.CompletedProcess[str]:
    command = [tool("promtool"), *arguments]
    return subprocess.run(command, input=told, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture(scope="module")
def scraped() -> Iterator[str]:
    """A deployment under load; the address of its metrics."""
    address = f"127.0.0.1:{free_port()}"
    with Stack(busy_config(settings={"metrics": address})) as stack, client_of(stack):
        for result in [actions.on_cpu.delay() for _ in range(6)] + [actions.nap.delay(0.3) for _ in range(4)]:
            result.get(timeout=20)
        yield address


def test_rules_and_configuration_are_valid() -> None:
    for arguments in (("rules", str(FOLDER / "rules.yaml")), ("config", str(FOLDER / "prometheus.yaml"))):
        run = promtool("check", *arguments)
        assert run.returncode == 0, run.stdout + run.stderr


def test_every_expression_of_the_dashboard_parses(tmp_path: Path) -> None:
    rules = [{"record": f"check:e{number}:x", "expr": line} for number, line in enumerate(expressions())]
    assert len(rules) > 25
    file = tmp_path / "expressions.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    run = promtool("check", "rules", str(file))
    assert run.returncode == 0, run.stdout + run.stderr
    file.write_text(json.dumps({"groups": [{"name": "broken", "rules": [{"record": "a:b", "expr": "sum(("}]}]}))
    assert promtool("check", "rules", str(file)).returncode != 0


def test_the_dashboard_is_printed_as_json() -> None:
    run = subprocess.run([sys.executable, "-m", "monitoring.dashboard"], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == dashboard()
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))


def test_names_and_values_of_a_real_run(scraped: str) -> None:
    wait_until(
        lambda: 'outcome="ok",task="t.nap"} 4.0' in fetch(f"http://{scraped}/metrics").decode(), "all are counted"
    )
    text = fetch(f"http://{scraped}/metrics").decode()
    assert "tangram_scheduler_leader 1.0" in text
    assert 'tangram_resource_capacity_units{node="cpu-1",resource="cpu"} 2.0' in text
    assert 'tangram_grant_units_count{resource="cpu",task="t.cpu"} 6.0' in text
    run = promtool("check", "metrics", told=text)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_real_prometheus_answers_the_dashboards_questions(scraped: str, tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yaml"
    told = (FOLDER / "prometheus.yaml").read_text().replace("127.0.0.1:9464", scraped).replace("5s", "1s")
    config.write_text(told)
    shutil.copy(FOLDER / "rules.yaml", tmp_path)
    address = f"127.0.0.1:{free_port()}"
    command = [tool("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
               f"--web.listen-address={address}"]  # fmt: skip
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            for line, least in (
                ('tangram_actions_total{task="t.cpu",outcome="ok"}', 6.0),
                ("max(tangram_scheduler_leader)", 1.0),
                ("sum(tangram_resource_granted_unit_seconds_total)", 0.5),
                ("histogram_quantile(0.95, sum by (le) (tangram_action_act_seconds_bucket))", 0.001),
                ('count(ALERTS{alertname="TangramNobodyLeads"}) or vector(0)', 0.0),
            ):
                wait_until(partial(_reaches, address, line, least), line, 40)
            for line in expressions():
                assert _ask(address, line)["status"] == "success"
        finally:
            server.terminate()
            server.wait(20)


def _ask(address: str, line: str) -> Any:
    return json.loads(fetch(f"http://{address}/api/v1/query?query={quote(line)}"))


def _reaches(address: str, line: str, least: float) -> bool:
    try:
        rows = _ask(address, line)["data"]["result"]
    except OSError:  # not up yet
        return False
    return bool(rows) and float(rows[0]["value"][1]) >= least


def test_an_address_that_is_taken_is_one_clear_line(scraped: str, clean_redis_url: str) -> None:
    command = [sys.executable, "-m", "compose.scheduler_process"]
    environment = {"TANGRAM_METRICS": scraped, "TANGRAM_BROKER_URL": clean_redis_url, "PATH": ""}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith(f"error: TANGRAM_METRICS={scraped}: cannot listen there")
