"""Walk a session in order, and find what is pinned, by an index each."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0051_touch_all"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="trace",
            name="trace_by_session",
        ),
        migrations.AddIndex(
            model_name="trace",
            index=models.Index(
                condition=models.Q(("session_id__isnull", False)),
                fields=["project", "session_id", "started_at", "id"],
                name="trace_by_session",
            ),
        ),
        migrations.AddIndex(
            model_name="trace",
            index=models.Index(
                condition=models.Q(("pinned_at__isnull", False)),
                fields=["project", "-pinned_at"],
                name="trace_pinned",
            ),
        ),
    ]
