"""Frozen baselines of releases, and ticks on their checklists."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0060_sessions_and_pins"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Baseline",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("release", models.TextField()),
                ("environment", models.TextField()),
                ("figures", models.JSONField()),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                ("frozen_at", models.DateTimeField()),
                (
                    "app",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="baselines",
                        to="tracebudget.app",
                    ),
                ),
                (
                    "frozen_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["app", "environment", "-id"], name="baseline_latest")
                ],
            },
        ),
        migrations.CreateModel(
            name="ChecklistTick",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("release", models.TextField()),
                ("item", models.CharField(max_length=30)),
                ("is_done", models.BooleanField()),
                ("note", models.TextField()),
                ("ticked_at", models.DateTimeField()),
                (
                    "app",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checklist_ticks",
                        to="tracebudget.app",
                    ),
                ),
                (
                    "ticked_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["app", "release", "item", "-id"], name="tick_latest")
                ],
            },
        ),
    ]
