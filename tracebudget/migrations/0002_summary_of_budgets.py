"""What the ledger of an app reads of each request: every metric has its column."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="trace",
            name="largest_input_tokens",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="trace",
            name="longest_turn_ns",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="trace",
            name="overhead_ns",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="trace",
            name="run_turn_count",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="trace",
            name="turn_ns",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(), null=True, size=None
            ),
        ),
        migrations.AddField(
            model_name="trace",
            name="unjudged",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), null=True, size=None
            ),
        ),
        migrations.AddField(
            model_name="trace",
            name="worst_first_visible_ns",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="trace",
            name="worst_tpot_ns",
            field=models.BigIntegerField(null=True),
        ),
    ]
