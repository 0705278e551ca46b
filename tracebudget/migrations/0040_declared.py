"""Declared settings, marks on tools, answers to findings, and what each finding is about."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

APP = "tracebudget.app"
WHO = models.ForeignKey(
    null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
)


def key() -> tuple[str, models.Field[Any, Any]]:
    field = models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )
    return ("id", field)


def app(related_name: str) -> models.Field[Any, Any]:
    return models.ForeignKey(
        on_delete=django.db.models.deletion.CASCADE, related_name=related_name, to=APP
    )


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0019_silences"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="subject",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.CreateModel(
            name="GatewaySettings",
            fields=[
                key(),
                ("settings", models.JSONField()),
                (
                    "app",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="gateway", to=APP
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ToolMark",
            fields=[
                key(),
                ("tool", models.TextField()),
                ("is_read_only", models.BooleanField(default=False)),
                ("is_dependent", models.BooleanField(default=False)),
                ("app", app("tool_marks")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("app", "tool"), name="tool_marked_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="DeclarationChange",
            fields=[
                key(),
                ("what", models.TextField()),
                ("old", models.TextField(null=True)),
                ("new", models.TextField(null=True)),
                ("changed_at", models.DateTimeField()),
                ("app", app("declaration_changes")),
                ("changed_by", WHO),
            ],
        ),
        migrations.CreateModel(
            name="FindingAnswer",
            fields=[
                key(),
                ("code", models.TextField()),
                ("subject", models.TextField()),
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("accepted", "Accepted"),
                            ("dependent", "Dependent"),
                            ("not_idempotent", "Not idempotent"),
                            ("will_not_fix", "Will not fix"),
                            ("open", "Open again"),
                        ],
                        max_length=20,
                    ),
                ),
                ("note", models.TextField()),
                ("answered_at", models.DateTimeField()),
                ("answered_by", WHO.clone()),
                ("app", app("answers")),
            ],
            options={
                "indexes": [
                    models.Index(fields=["app", "code", "subject", "-id"], name="answer_latest")
                ],
            },
        ),
    ]
