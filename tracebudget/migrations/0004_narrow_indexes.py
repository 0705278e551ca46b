"""Indexes for what is asked for, and none beside them (docs/decisions/0003 has their costs)."""

import django.db.models.deletion
from django.contrib.postgres.indexes import BrinIndex
from django.db import migrations, models
from django.db.models import Q

# Rows of conclusions, by the name of their model. Their primary key is Django's alone.
CONCLUDED = ("modelcall", "toolcall", "breach", "finding")


def drop_key(name: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"ALTER TABLE tracebudget_{name} DROP CONSTRAINT tracebudget_{name}_pkey",
        f"ALTER TABLE tracebudget_{name} ADD CONSTRAINT tracebudget_{name}_pkey"
        " PRIMARY KEY (day, trace_id, position)",
    )


def narrow_indexes(name: str) -> list[migrations.AddIndex]:
    indexes = (
        models.Index(fields=["trace"], name=f"{name}_by_trace"),
        models.Index(fields=["app"], name=f"{name}_by_app"),
        BrinIndex(
            fields=["started_at"],
            name=f"{name}_by_start",
            pages_per_range=32,
            autosummarize=True,
        ),
    )
    return [migrations.AddIndex(model_name=name, index=index) for index in indexes]


class Migration(migrations.Migration):
    dependencies = [("tracebudget", "0003_queue_of_its_own")]

    operations = [
        *map(drop_key, CONCLUDED),
        *(operation for name in CONCLUDED for operation in narrow_indexes(name)),
        migrations.RemoveIndex(model_name="trace", name="trace_by_start"),
        migrations.RemoveIndex(model_name="trace", name="trace_by_app"),
        migrations.AlterField(
            model_name="trace",
            name="app",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="tracebudget.app",
            ),
        ),
        migrations.AlterField(
            model_name="trace",
            name="project",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                to="tracebudget.project",
            ),
        ),
        migrations.AddIndex(
            model_name="trace",
            index=models.Index(
                fields=["project", "-started_at", "-id"],
                name="trace_by_start",
                condition=Q(started_at__isnull=False),
            ),
        ),
        migrations.AddIndex(
            model_name="trace",
            index=models.Index(
                fields=["app", "-started_at"],
                name="trace_by_app",
                condition=Q(app__isnull=False),
            ),
        ),
        migrations.AddIndex(
            model_name="trace",
            index=BrinIndex(fields=["day"], name="trace_by_day"),
        ),
    ]
