"""All access rules: members see their projects, strangers a 404 that tells them nothing."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.utils.translation import gettext

from tracebudget import models
from tracebudget.queries.traces import find_trace

Reader = AbstractBaseUser | AnonymousUser


def projects_of(user: Reader) -> list[models.Project]:
    """The projects that a user is a member of, by name. One query."""
    return list(models.Project.objects.filter(memberships__user=user.pk).order_by("name"))


def project_for(user: Reader, slug: str) -> models.Project:
    """The project, if the user is a member of it. Raises Http404 otherwise. One query."""
    project = models.Project.objects.filter(slug=slug, memberships__user=user.pk).first()
    if project is None:
        raise Http404(f"no project {slug!r} among the user's")
    return project


def is_owner(user: Reader, project: models.Project) -> bool:
    """Whether a user may change what belongs to the project. One query."""
    mine = models.Membership.objects.filter(user=user.pk, project=project)
    return mine.filter(role=models.Role.OWNER).exists()


def owns_any(user: Reader) -> bool:
    """Whether a user owns a project, and so may make another. One query."""
    return models.Membership.objects.filter(user=user.pk, role=models.Role.OWNER).exists()


def require_owner(user: Reader, project: models.Project) -> None:
    """Raises PermissionDenied for a member who is no owner. One query."""
    if not is_owner(user, project):
        raise PermissionDenied(gettext("Only owners of the project may change this."))


def app_for(project: models.Project, slug: str) -> models.App:
    """Raises Http404 for an app of another project, or none. One query."""
    app = models.App.objects.filter(project=project, slug=slug).select_related("project").first()
    if app is None:
        raise Http404(f"no app {slug!r} in this project")
    return app


def trace_for(project: models.Project, trace_id: UUID) -> models.Trace:
    """Raises Http404 for a request of another project, or none. One query."""
    trace = find_trace(project, trace_id)
    if trace is None:
        raise Http404(f"no request {trace_id.hex} in this project")
    return trace
