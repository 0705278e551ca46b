"""Traces that somebody wants kept, whatever their age."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tracebudget", "0005_payload_in_two")]

    operations = [
        migrations.AddField(
            model_name="trace", name="pinned_at", field=models.DateTimeField(null=True)
        ),
    ]
