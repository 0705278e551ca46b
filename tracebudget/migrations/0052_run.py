"""Which run of its request a model call belongs to: turns are compared within one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0061_baselines"),
    ]

    operations = [
        migrations.AddField(
            model_name="modelcall",
            name="run",
            field=models.IntegerField(null=True),
        ),
    ]
