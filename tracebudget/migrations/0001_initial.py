"""The whole schema. The tables that grow with traffic are partitioned by day from the start: an
ordinary table cannot become a partitioned one later (docs/decisions/0003)."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import ProjectState


class CreatePartitioned(migrations.CreateModel):
    """CreateModel with one clause more, so that state and table come from one list of fields."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        plain = schema_editor.sql_create_table
        schema_editor.sql_create_table = f"{plain} PARTITION BY RANGE (day)"
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        finally:
            schema_editor.sql_create_table = plain


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("slug", models.SlugField(unique=True)),
                ("name", models.CharField(max_length=200)),
                (
                    "privacy",
                    models.CharField(
                        choices=[("timings_only", "Timings only"), ("full", "Full")],
                        default="timings_only",
                        max_length=20,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("owner", "Owner"), ("member", "Member")],
                        default="member",
                        max_length=20,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="tracebudget.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "user"), name="membership_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="IngestKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="tracebudget.project"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="tracebudget.project"
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="SignInLink",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="App",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="apps",
                        to="tracebudget.project",
                    ),
                ),
                ("name", models.TextField()),
                ("slug", models.SlugField(max_length=80)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "name"), name="app_name_once"),
                    models.UniqueConstraint(fields=("project", "slug"), name="app_slug_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.TextField()),
                ("limit", models.BigIntegerField()),
                ("objective", models.DecimalField(decimal_places=2, default=95, max_digits=5)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "app",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="tracebudget.app",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("app", "metric"), name="budget_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="BudgetChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("metric", models.TextField()),
                ("old_limit", models.BigIntegerField(null=True)),
                ("new_limit", models.BigIntegerField(null=True)),
                ("old_objective", models.DecimalField(decimal_places=2, max_digits=5, null=True)),
                ("new_objective", models.DecimalField(decimal_places=2, max_digits=5, null=True)),
                ("changed_at", models.DateTimeField(auto_now_add=True)),
                (
                    "app",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budget_changes",
                        to="tracebudget.app",
                    ),
                ),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Trace",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("trace_id", models.UUIDField()),
                ("day", models.DateField()),
                ("revision", models.BigIntegerField(default=0)),
                ("analyze_after", models.DateTimeField(null=True)),
                ("attempts", models.SmallIntegerField(default=0)),
                ("failure", models.TextField(default="")),
                ("batch_count", models.IntegerField(default=0)),
                ("span_count", models.IntegerField(default=0)),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("analyzed_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("name", models.TextField(null=True)),
                ("environment", models.TextField(null=True)),
                ("version", models.TextField(null=True)),
                ("session_id", models.TextField(null=True)),
                ("state", models.CharField(max_length=12, null=True)),
                ("has_error", models.BooleanField(null=True)),
                (
                    "agent_names",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None
                    ),
                ),
                (
                    "model_names",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None
                    ),
                ),
                (
                    "tool_names",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None
                    ),
                ),
                (
                    "finding_codes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None
                    ),
                ),
                (
                    "breached",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None
                    ),
                ),
                ("end_to_end_ns", models.BigIntegerField(null=True)),
                ("prefill_ns", models.BigIntegerField(null=True)),
                ("decode_ns", models.BigIntegerField(null=True)),
                ("tool_ns", models.BigIntegerField(null=True)),
                ("framework_ns", models.BigIntegerField(null=True)),
                ("wait_ns", models.BigIntegerField(null=True)),
                ("unsplit_ns", models.BigIntegerField(null=True)),
                ("unattributed_ns", models.BigIntegerField(null=True)),
                ("turn_count", models.IntegerField(null=True)),
                ("model_call_count", models.IntegerField(null=True)),
                ("tool_call_count", models.IntegerField(null=True)),
                ("ttft_count", models.IntegerField(null=True)),
                ("worst_ttft_ns", models.BigIntegerField(null=True)),
                ("input_tokens", models.BigIntegerField(null=True)),
                ("output_tokens", models.BigIntegerField(null=True)),
                ("saving_ns", models.BigIntegerField(null=True)),
                (
                    "app",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, to="tracebudget.app"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="tracebudget.project"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "trace_id"), name="trace_once")
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("analyze_after__isnull", False)),
                        fields=["analyze_after"],
                        name="trace_due",
                    ),
                    models.Index(fields=["project", "-started_at", "-id"], name="trace_by_start"),
                    models.Index(fields=["app", "-started_at"], name="trace_by_app"),
                    models.Index(
                        condition=models.Q(("session_id__isnull", False)),
                        fields=["project", "session_id"],
                        name="trace_by_session",
                    ),
                ],
            },
        ),
        CreatePartitioned(
            name="SpanBatch",
            fields=[
                ("day", models.DateField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day",
                        "trace_id",
                        "digest",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("digest", models.BinaryField(max_length=16)),
                ("span_count", models.IntegerField()),
                ("payload", models.BinaryField()),
                (
                    "trace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.trace",
                    ),
                ),
            ],
            options={
                "db_table": "tracebudget_spanbatch",
            },
        ),
        CreatePartitioned(
            name="Analysis",
            fields=[
                ("day", models.DateField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day",
                        "trace_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("revision", models.BigIntegerField()),
                ("document", models.BinaryField()),
                (
                    "trace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.trace",
                    ),
                ),
            ],
            options={
                "db_table": "tracebudget_analysis",
            },
        ),
        CreatePartitioned(
            name="ModelCall",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day",
                        "trace_id",
                        "position",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.DateField()),
                ("position", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("turn", models.IntegerField(null=True)),
                ("model", models.TextField(null=True)),
                ("provider", models.TextField(null=True)),
                ("streamed", models.BooleanField(null=True)),
                ("is_error", models.BooleanField()),
                ("attempt", models.IntegerField()),
                ("duration_ns", models.BigIntegerField()),
                ("critical_ns", models.BigIntegerField()),
                ("ttft_ns", models.BigIntegerField(null=True)),
                ("ttft_source", models.CharField(max_length=10)),
                ("queue_ns", models.BigIntegerField(null=True)),
                ("tpot_ns", models.BigIntegerField(null=True)),
                ("input_tokens", models.BigIntegerField(null=True)),
                ("cached_input_tokens", models.BigIntegerField(null=True)),
                ("output_tokens", models.BigIntegerField(null=True)),
                (
                    "app",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.app",
                    ),
                ),
                (
                    "trace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.trace",
                    ),
                ),
            ],
            options={
                "db_table": "tracebudget_modelcall",
            },
        ),
        CreatePartitioned(
            name="ToolCall",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day",
                        "trace_id",
                        "position",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.DateField()),
                ("position", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("turn", models.IntegerField(null=True)),
                ("name", models.TextField()),
                ("is_error", models.BooleanField()),
                ("is_timeout", models.BooleanField()),
                ("attempt", models.IntegerField()),
                ("duration_ns", models.BigIntegerField()),
                ("critical_ns", models.BigIntegerField()),
                (
                    "app",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.app",
                    ),
                ),
                (
                    "trace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.trace",
                    ),
                ),
            ],
            options={
                "db_table": "tracebudget_toolcall",
            },
        ),
        CreatePartitioned(
            name="Breach",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day",
                        "trace_id",
                        "position",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.DateField()),
                ("position", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("metric", models.TextField()),
                ("limit", models.BigIntegerField()),
                ("value", models.BigIntegerField()),
                ("span_id", models.CharField(max_length=16, null=True)),
                (
                    "app",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.app",
                    ),
                ),
                (
                    "trace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.trace",
                    ),
                ),
            ],
            options={
                "db_table": "tracebudget_breach",
            },
        ),
        CreatePartitioned(
            name="Finding",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "day",
                        "trace_id",
                        "position",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("day", models.DateField()),
                ("position", models.IntegerField()),
                ("started_at", models.DateTimeField()),
                ("code", models.TextField()),
                ("kind", models.CharField(max_length=12)),
                ("severity", models.CharField(max_length=8)),
                ("turn", models.IntegerField(null=True)),
                ("saving_ns", models.BigIntegerField(null=True)),
                (
                    "app",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.app",
                    ),
                ),
                (
                    "trace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="tracebudget.trace",
                    ),
                ),
            ],
            options={
                "db_table": "tracebudget_finding",
            },
        ),
        # Both are compressed already: a second attempt by Postgres costs time and wins nothing.
        migrations.RunSQL(
            """
            ALTER TABLE tracebudget_spanbatch ALTER COLUMN payload SET STORAGE EXTERNAL;
            ALTER TABLE tracebudget_analysis ALTER COLUMN document SET STORAGE EXTERNAL;
            """,
            reverse_sql=migrations.RunSQL.noop,
        ),
    ]
