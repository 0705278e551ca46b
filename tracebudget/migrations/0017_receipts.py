"""What came in, and what the privacy door did with it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0016_failed_traces"),
    ]

    operations = [
        migrations.CreateModel(
            name="Receipt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "way",
                    models.CharField(
                        choices=[("http", "HTTP"), ("grpc", "gRPC"), ("file", "File")], max_length=4
                    ),
                ),
                (
                    "signal",
                    models.CharField(
                        choices=[("traces", "Traces"), ("metrics", "Metrics"), ("logs", "Logs")],
                        max_length=7,
                    ),
                ),
                (
                    "privacy",
                    models.CharField(
                        choices=[
                            ("timings_only", "Timings only"),
                            ("masked", "Masked"),
                            ("full", "Full"),
                        ],
                        max_length=20,
                    ),
                ),
                ("export_count", models.IntegerField()),
                ("span_count", models.IntegerField()),
                ("refused", models.JSONField()),
                ("repaired", models.JSONField()),
                ("errors", models.JSONField()),
                ("fates", models.JSONField()),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="tracebudget.project",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["project", "-id"], name="receipt_latest")],
            },
        ),
    ]
