"""Find the traces whose analysis failed, for the status page."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0015_masked"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="trace",
            index=models.Index(
                condition=models.Q(("failure", ""), _negated=True),
                fields=["-id"],
                name="trace_failed",
            ),
        ),
    ]
