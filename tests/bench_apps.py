"""How fast pages of apps are with a million requests: `make bench-apps`.

Summaries and calls are made by SQL in the database of the tests, added up, and read. No worker.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from tracebudget import models, partition, store
from tracebudget.queries.apps import Scope, app_report, app_rows
from tracebudget.queries.traces import WINDOWS, window

REQUESTS = int(os.environ.get("BENCH_REQUESTS", "1_000_000"))
DAYS, APPS = 30, int(os.environ.get("BENCH_APPS", "3"))
NOW = datetime.now(UTC).replace(microsecond=0)

TRACES = """
    INSERT INTO tracebudget_trace (
        project_id, trace_id, day, revision, failure, batch_count, span_count, refused_span_count,
        first_seen_at, last_seen_at, app_id, analyzed_at, started_at, name, environment, version,
        state, has_error, agent_names, model_names, tool_names, finding_codes, breached, unjudged,
        unknown_steps, end_to_end_ns, prefill_ns, decode_ns, tool_ns, framework_ns, wait_ns,
        unsplit_ns, unattributed_ns, overhead_ns, longest_turn_ns, turn_ns, turn_count,
        run_turn_count, model_call_count, tool_call_count, ttft_count, worst_ttft_ns,
        worst_first_visible_ns, worst_tpot_ns, input_tokens, largest_input_tokens, output_tokens
    )
    SELECT %(project)s, gen_random_uuid(), at::date, 1, '', 1, 8, 0, at, at,
        (%(apps)s::bigint[])[1 + n %% %(count)s], at, at, 'run', 'production',
        CASE WHEN random() < 0.5 THEN '1' ELSE '2' END, 'complete', random() < 0.01, '{a}', '{m}',
        '{t}', '{}', '{}', '{}', '{}', ns, ns / 4, ns / 4, ns / 4, ns / 4, 0, 0, 0, ns / 4, ns / 2,
        ARRAY[ns / 2, ns / 2], 2, 2, 2, 1, 2, ns / 8, ns / 8, 10000000, 3000, 2000, 200
    FROM (
        SELECT n, %(now)s - n * interval '1 second' * %(every)s AS at,
            (exp(random() * 3) * 1e9)::bigint AS ns
        FROM generate_series(0, %(requests)s - 1) AS n
    ) AS made
"""
MODEL_CALLS = """
    INSERT INTO tracebudget_modelcall (
        day, trace_id, position, app_id, started_at, turn, run, model, is_error, attempt,
        duration_ns, critical_ns, ttft_ns, ttft_source, ttft_is_bound, tpot_ns, input_tokens,
        output_tokens
    )
    SELECT day, id, turn, app_id, started_at, turn, 0, 'm', false, 0, end_to_end_ns / 4,
        end_to_end_ns / 4, worst_ttft_ns, 'measured', false, worst_tpot_ns, 1000 + 1000 * turn, 100
    FROM tracebudget_trace, generate_series(0, 1) AS turn WHERE project_id = %s
"""
TOOL_CALLS = """
    INSERT INTO tracebudget_toolcall (
        day, trace_id, position, app_id, started_at, turn, name, is_error, is_timeout, attempt,
        duration_ns, critical_ns
    )
    SELECT day, id, 2, app_id, started_at, 0, 'tool ' || id %% 5, false, false, 0, tool_ns, tool_ns
    FROM tracebudget_trace WHERE project_id = %s
"""
FINDINGS = """
    INSERT INTO tracebudget_finding (
        day, trace_id, position, app_id, started_at, code, kind, severity, subject, turn, saving_ns
    )
    SELECT day, id, 0, app_id, started_at, 'serial_tools', 'performance', 'warning',
        'tool ' || id %% 5, 0, tool_ns / 2
    FROM tracebudget_trace WHERE project_id = %s AND id %% 10 = 0
"""


def test_pages_of_apps(transactional_db: None) -> None:
    project = models.Project.objects.create(slug="bench-apps", name="Bench")
    apps = _fill(project, REQUESTS)
    _add_up(REQUESTS)
    _read(project, apps[0])


def _fill(project: models.Project, requests: int) -> list[models.App]:
    for day in range(DAYS + 1):
        partition.create((NOW - timedelta(days=day)).date())
    names = [f"app-{n}" for n in range(APPS)]
    apps = [models.App.objects.create(project=project, name=n, slug=n) for n in names]
    for app in apps:
        models.Budget.objects.create(app=app, metric="end_to_end", limit=5_000_000_000)
    started = time.perf_counter()
    values: dict[str, Any] = {
        "project": project.pk, "apps": [app.pk for app in apps], "count": APPS, "now": NOW,
        "every": DAYS * 86_400 / requests, "requests": requests,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(TRACES, values)
        for statement in (MODEL_CALLS, TOOL_CALLS, FINDINGS):
            cursor.execute(statement, [project.pk])
        cursor.execute(
            """
            INSERT INTO tracebudget_touched (app_id, start)
            SELECT DISTINCT app_id, date_bin('10 minutes', started_at, '1970-01-01Z')
            FROM tracebudget_trace WHERE project_id = %s
            """,
            [project.pk],
        )
        cursor.execute("ANALYZE")
    print(f"{requests:,} requests of {APPS} apps in {time.perf_counter() - started:.0f} s")
    return apps


def _add_up(requests: int) -> None:
    started, stretches = time.perf_counter(), models.Touched.objects.count()
    while models.Touched.objects.exists():
        store.refresh_rollups(lambda: datetime.now(UTC))
    seconds = time.perf_counter() - started
    print(f"added up {stretches:,} stretches in {seconds:.0f} s:", end=" ")
    print(f"{1e6 * seconds / requests:.0f} µs a request, {1e3 * seconds / stretches:.1f} ms each")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), pg_total_relation_size('tracebudget_rollup') FROM tracebudget_rollup"
        )
        rows, size = cursor.fetchone()
    print(f"{rows:,} rows of rollups, {size / 1e6:.0f} MB")


def _read(project: models.Project, app: models.App) -> None:
    for name in WINDOWS:
        scope = Scope(project, window(name, now=NOW))
        one = Scope(project, window(name, now=NOW), app=app)
        print(
            f"{name:>4}: apps {_best(lambda: app_rows(scope)):.0f} ms,"  # noqa: B023
            f" app {_best(lambda: app_report(one, now=NOW)):.0f} ms"  # noqa: B023
        )
    started = time.perf_counter()
    lesson = store.load_lesson(app.pk)
    print(
        f"a look at an app: {time.perf_counter() - started:.1f} s"
        f" for {len(lesson.latest):,} and {len(lesson.sample):,} calls"
    )


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        started = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - started))
    return min(times)
