"""A third answer to what is kept of what was sent."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0010_alerts"),
    ]

    operations = [
        migrations.AlterField(
            model_name="project",
            name="privacy",
            field=models.CharField(
                choices=[
                    ("timings_only", "Timings only"),
                    ("masked", "Masked"),
                    ("full", "Full"),
                ],
                default="timings_only",
                max_length=20,
            ),
        ),
    ]
