"""Requests that were analysed before there were rollups: all their stretches are to be added up."""

from django.db import migrations

TOUCH = """
    INSERT INTO tracebudget_touched (app_id, start)
    SELECT DISTINCT app_id, date_bin('10 minutes', started_at, '1970-01-01Z')
    FROM tracebudget_trace WHERE app_id IS NOT NULL AND started_at IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tracebudget", "0050_rollups"),
    ]

    operations = [migrations.RunSQL(TOUCH, migrations.RunSQL.noop)]
