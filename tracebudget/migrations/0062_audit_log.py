"""Write down who changed what of a project's settings."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0052_run"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ProjectChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("privacy", "Privacy mode"),
                            ("member", "Member"),
                            ("ingest_key", "Ingest key"),
                            ("api_token", "API token"),
                        ],
                        max_length=12,
                    ),
                ),
                ("subject", models.TextField(db_default="", default="")),
                ("old", models.TextField(null=True)),
                ("new", models.TextField(null=True)),
                ("changed_at", models.DateTimeField()),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
                "indexes": [models.Index(fields=["project", "-id"], name="project_change_latest")],
            },
        ),
    ]
