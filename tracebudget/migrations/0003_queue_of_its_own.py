"""The queue becomes a narrow table of its own. Each claim updated an indexed column of the wide row
of the trace, so that Postgres wrote the row and all its index entries anew (docs/decisions/0002).
"""

import django.db.models.deletion
from django.db import migrations, models

# What waits goes on waiting. Lanes matter only to fairness: all of it may stand in one.
MOVE = """
    INSERT INTO tracebudget_due (trace_id, lane, due_at, attempts)
    SELECT id, 0, analyze_after, attempts FROM tracebudget_trace WHERE analyze_after IS NOT NULL
"""
MOVE_BACK = """
    UPDATE tracebudget_trace AS trace SET analyze_after = due.due_at, attempts = due.attempts
    FROM tracebudget_due AS due WHERE due.trace_id = trace.id
"""
# Each row lives for seconds, so the dead are soon many times the living.
VACUUM_OFTEN = """
    ALTER TABLE tracebudget_due SET (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000
    )
"""


class Migration(migrations.Migration):
    dependencies = [("tracebudget", "0002_summary_of_budgets")]

    operations = [
        migrations.CreateModel(
            name="Due",
            fields=[
                (
                    "trace",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="due",
                        serialize=False,
                        to="tracebudget.trace",
                    ),
                ),
                ("lane", models.SmallIntegerField()),
                ("due_at", models.DateTimeField()),
                ("attempts", models.SmallIntegerField(default=0)),
            ],
            options={
                "indexes": [models.Index(fields=["lane", "due_at"], name="due_by_lane")],
            },
        ),
        migrations.RunSQL(MOVE, MOVE_BACK),
        migrations.RunSQL(VACUUM_OFTEN, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="trace", name="trace_due"),
        migrations.RemoveField(model_name="trace", name="analyze_after"),
        migrations.RemoveField(model_name="trace", name="attempts"),
        migrations.AddField(
            model_name="trace",
            name="refused_span_count",
            field=models.IntegerField(default=0),
        ),
    ]
