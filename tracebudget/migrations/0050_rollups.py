"""Figures over many requests, what is learned of apps, and three columns that both read."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0040_declared"),
    ]

    operations = [
        migrations.CreateModel(
            name="Learned",
            fields=[
                (
                    "app",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="learned",
                        serialize=False,
                        to="tracebudget.app",
                    ),
                ),
                ("changed_at", models.DateTimeField()),
                ("made_at", models.DateTimeField(null=True)),
                ("profile", models.JSONField(null=True)),
                ("diagnosis", models.JSONField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name="modelcall",
            name="tool_result_tokens",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="modelcall",
            name="ttft_is_bound",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="trace",
            name="unknown_steps",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), null=True, size=None
            ),
        ),
        migrations.CreateModel(
            name="Touched",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("start", models.DateTimeField()),
                (
                    "app",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="tracebudget.app",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Rollup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "level",
                    models.SmallIntegerField(
                        choices=[(10, "10 minutes"), (60, "hour"), (360, "6 hours"), (1440, "day")]
                    ),
                ),
                ("start", models.DateTimeField()),
                ("environment", models.TextField()),
                ("version", models.TextField()),
                ("metric", models.TextField()),
                ("name", models.TextField()),
                ("total", models.IntegerField()),
                ("count", models.IntegerField()),
                ("sum", models.DecimalField(decimal_places=0, max_digits=30)),
                (
                    "bins",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(), size=None
                    ),
                ),
                (
                    "counts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.IntegerField(), size=None
                    ),
                ),
                ("least", models.BigIntegerField(null=True)),
                ("most", models.BigIntegerField(null=True)),
                ("also", models.JSONField()),
                ("made_at", models.DateTimeField()),
                (
                    "app",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="tracebudget.app",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["app", "level", "start"], name="rollup_by_stretch")
                ],
            },
        ),
    ]
