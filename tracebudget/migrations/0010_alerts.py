"""Alerts with their history, the channels they are told through, and the outbox."""

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0006_pins"),
    ]

    operations = [
        migrations.CreateModel(
            name="Alert",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("app_name", models.TextField()),
                ("metric", models.TextField()),
                ("limit", models.BigIntegerField()),
                ("objective", models.DecimalField(decimal_places=2, max_digits=5)),
                ("opened_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(null=True)),
                ("kept_since", models.DateTimeField(null=True)),
                ("judged_at", models.DateTimeField()),
                ("reopenings", models.PositiveSmallIntegerField(default=0)),
                ("judged", models.IntegerField()),
                ("over", models.IntegerField()),
                ("worst", models.BigIntegerField()),
                (
                    "evidence",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                (
                    "app",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="tracebudget.app",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="tracebudget.project"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("change", models.CharField(max_length=16)),
                ("at", models.DateTimeField()),
                ("facts", models.JSONField()),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="tracebudget.alert",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("is_on", models.BooleanField(default=True)),
                ("over", models.PositiveSmallIntegerField()),
                ("of_last", models.PositiveSmallIntegerField()),
                ("window_minutes", models.PositiveSmallIntegerField()),
                ("recovery_minutes", models.PositiveSmallIntegerField()),
                (
                    "app",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alert_rule",
                        to="tracebudget.app",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("email", "E-mail"), ("webhook", "Webhook")], max_length=10
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("destination", models.TextField()),
                ("config", models.BinaryField()),
                ("is_on", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("removed_at", models.DateTimeField(null=True)),
                (
                    "app",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, to="tracebudget.app"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="channels",
                        to="tracebudget.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "waiting"), ("sent", "sent"), ("failed", "failed")],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("next_try_at", models.DateTimeField(null=True)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="tracebudget.channel",
                    ),
                ),
                (
                    "event",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="tracebudget.alertevent",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DeliveryTry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("took_ms", models.IntegerField()),
                ("is_success", models.BooleanField()),
                ("answer", models.TextField()),
                (
                    "delivery",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="log",
                        to="tracebudget.delivery",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["project", "-opened_at", "-id"], name="alert_by_opening"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["app", "metric", "-opened_at"], name="alert_by_budget"),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at", None)),
                fields=("app", "metric"),
                name="alert_open_once",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("next_try_at__isnull", False)),
                fields=["next_try_at"],
                name="delivery_due",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["channel", "-created_at"], name="delivery_by_channel"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("event", "channel"), name="delivery_once"),
        ),
    ]
