"""What commands are told by name: projects, their apps, and releases of those."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import CommandError

from tracebudget import models
from tracebudget.queries import releases
from tracebudget.queries.releases import Release
from tracebudget.runtime.first_start import PROJECT

UNREADABLE = 2  # exit status when something that was named cannot be read


def add_project_option(parser: ArgumentParser) -> None:
    parser.add_argument("--project", default=PROJECT, help=f"its slug (default: {PROJECT})")


def project_named(slug: str) -> models.Project:
    """Raises CommandError."""
    found = models.Project.objects.filter(slug=slug).first()
    if found is None:
        raise CommandError(f"There is no project {slug!r}.", returncode=UNREADABLE)
    return found


def app_named(project: str, name: str) -> models.App:
    """An app by its name or its slug. Raises CommandError with those that there are."""
    mine = models.App.objects.filter(project=project_named(project)).select_related("project")
    found = mine.filter(name=name).first() or mine.filter(slug=name).first()
    if found is None:
        known = ", ".join(mine.order_by("name").values_list("name", flat=True)) or "none yet"
        raise CommandError(
            f"There is no app {name!r} in project {project}; there are: {known}.",
            returncode=UNREADABLE,
        )
    return found


def add_release_options(parser: ArgumentParser) -> None:
    parser.add_argument("--release", help="its service.version (default: the newest seen)")
    parser.add_argument("--environment", default="", help="only requests of it (default: of all)")


def release_named(app: models.App, version: str | None, environment: str) -> Release:
    """A release that was seen, or the newest. Raises CommandError with those that there are."""
    found = releases.named(app, version, environment)
    if found is not None:
        return found
    known = ", ".join(release.version for release in releases.releases(app, environment))
    where = f" in environment {environment!r}" if environment else ""
    raise CommandError(
        f"No request of release {version!r} was seen{where}; there are: {known}."
        if known
        else f"No request of {app.name}{where} tells its release: set service.version.",
        returncode=UNREADABLE,
    )
