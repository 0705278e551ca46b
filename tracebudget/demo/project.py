"""The demo's place in the database: a project of its own.

Made-up requests never stand among real ones, and all that was made goes with the project. Its
content is kept in full: there is nothing in it to hide.
"""

from __future__ import annotations

from types import ModuleType

from django.apps import apps
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Sum

from tracebudget import keys, models
from tracebudget.demo import coding, nightly, support

SLUG, NAME = "demo", "Demo"
APPS = (support, coding, nightly)


class DemoExistsError(Exception):
    """There is demo data already."""


def create() -> tuple[models.Project, str]:
    """Make the project, its apps, what they promise and declare. Returns it with an ingest key's
    secret.

    Whoever owns a project becomes an owner of this one. Raises DemoExistsError.
    """
    with transaction.atomic():
        project, is_new = models.Project.objects.get_or_create(
            slug=SLUG, defaults={"name": NAME, "privacy": models.Privacy.FULL}
        )
        if not is_new:
            raise DemoExistsError
        for owner in User.objects.filter(memberships__role=models.Role.OWNER).distinct():
            models.Membership.objects.create(project=project, user=owner, role=models.Role.OWNER)
        for app in APPS:
            _create_app(project, app)
        _, secret = keys.create_key(project, "manage.py demo", models.IngestKey)
    return project, secret


def _create_app(project: models.Project, made: ModuleType) -> None:
    app = models.App.objects.create(project=project, name=made.APP, slug=made.APP)
    models.Budget.objects.bulk_create(
        models.Budget(app=app, metric=b.metric, limit=b.limit, objective=b.objective)
        for b in made.BUDGETS
    )
    models.GatewaySettings.objects.create(app=app, settings=made.GATEWAY.settings())
    models.ToolMark.objects.bulk_create(
        models.ToolMark(app=app, tool=tool, is_read_only=True) for tool in sorted(made.READ_ONLY)
    )


def revoke_keys(project: models.Project) -> None:
    """No more spans by the keys of `create`."""
    models.IngestKey.objects.filter(project=project).delete()


def analyzed(project: models.Project) -> int:
    """How many requests are."""
    return models.Trace.objects.filter(project=project, analyzed_at__isnull=False).count()


def added_up(project: models.Project) -> int:
    """How many requests figures over many rest on."""
    whole = models.Rollup.objects.filter(
        app__project=project, level=models.Level.DAY, metric="end_to_end"
    )
    return whole.aggregate(requests=Sum("total"))["requests"] or 0


def remove() -> int:
    """Remove the project and all that it holds. How many requests that were."""
    with transaction.atomic():
        project = models.Project.objects.filter(slug=SLUG).first()
        if project is None:
            return 0
        traces = models.Trace.objects.filter(project=project)
        # In the order of all writers: an analysis under way waits for us, or we for it.
        count = len(traces.order_by("trace_id").select_for_update().values_list("pk"))
        for model in apps.get_models():
            if issubclass(model, models.DayPartitioned):  # without a constraint to the trace
                model._default_manager.filter(trace__in=traces).delete()
        traces.delete()
        project.delete()
    return count
