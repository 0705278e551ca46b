"""Head and tail of the payload: what fills Postgres' chunks, and the rest (`store.arrival`).

Payloads that are stored already are all head.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tracebudget", "0004_narrow_indexes")]

    operations = [
        migrations.RenameField(model_name="spanbatch", old_name="payload", new_name="head"),
        migrations.AddField(
            model_name="spanbatch",
            name="tail",
            field=models.BinaryField(default=b""),
            preserve_default=False,
        ),
        # In the row, whatever its length, and as it is.
        migrations.RunSQL(
            "ALTER TABLE tracebudget_spanbatch ALTER COLUMN tail SET STORAGE PLAIN",
            migrations.RunSQL.noop,
        ),
    ]
