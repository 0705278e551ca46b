"""A limit of its own for an ingest key."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0017_receipts"),
    ]

    operations = [
        migrations.AddField(
            model_name="ingestkey",
            name="max_spans_per_second",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
