"""Who belongs to a project, and what each may do."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from tracebudget import models
from tracebudget.sign_in import create_sign_in_url
from tracebudget.web.access import is_owner, project_for, require_owner
from tracebudget.web.audit import Change, note
from tracebudget.web.settings_forms import MemberForm, RoleForm


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def members_page(request: HttpRequest, project: str) -> HttpResponse:
    """Who may see and change this project?"""
    mine = project_for(request.user, project)
    form = MemberForm(mine, request.POST or None)
    if request.method == "POST":
        require_owner(request.user, mine)
        if form.is_valid():
            return _add(request, mine, form)
    context = {
        "project": mine,
        "is_owner": is_owner(request.user, mine),
        "members": [(member, may_get_link(member)) for member in _members(mine)],
        "roles": models.Role.choices,
        "form": form,
    }
    return render(request, "settings/members.html", context, status=400 if form.errors else 200)


def _members(project: models.Project) -> QuerySet[models.Membership]:
    """Each with the number of projects that its user is in."""
    found = models.Membership.objects.filter(project=project).select_related("user")
    return found.annotate(projects=Count("user__memberships")).order_by("user__username")


@transaction.atomic
def _add(request: HttpRequest, project: models.Project, form: MemberForm) -> HttpResponse:
    """Somebody new gets a way in. Of somebody who is here already we give no way in away."""
    name = form.cleaned_data["username"]
    user, is_new = User.objects.get_or_create(username=name)
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    role = form.cleaned_data["role"]
    models.Membership.objects.create(project=project, user=user, role=role)
    change = Change(models.Changed.MEMBER, None, role, name)
    note(request, project, change, now=timezone.now())
    if is_new:
        return _show_link(request, project, user)
    messages.success(request, gettext("%(name)s is a member now.") % {"name": name})
    return redirect("members", project.slug)


def _show_link(request: HttpRequest, project: models.Project, user: User) -> HttpResponse:
    link = create_sign_in_url(user, now=timezone.now())
    context = {"project": project, "user_name": user.username, "link": link}
    return render(request, "settings/member_added.html", context)


@require_POST
@never_cache
@transaction.atomic
def change_member(request: HttpRequest, project: str, member: int, action: str) -> HttpResponse:
    """Another role, another link for somebody who never came, or out."""
    mine = project_for(request.user, project)
    require_owner(request.user, mine)
    models.Project.objects.select_for_update().get(pk=mine.pk)  # two owners at once, in turn
    membership = _members(mine).filter(pk=member).first()
    if membership is None or action not in {"role", "link", "remove"}:
        raise Http404(f"no member {member} in this project, or nothing called {action!r}")
    if action == "link":
        return _another_link(request, mine, membership)
    role = None if action == "remove" else _wanted_role(request)
    _change(request, membership, role)
    is_out = membership.pk is None and membership.user == request.user
    return redirect("home") if is_out else redirect("members", mine.slug)


def _wanted_role(request: HttpRequest) -> str:
    form = RoleForm(request.POST)
    if not form.is_valid():
        raise Http404("no such role")
    role: str = form.cleaned_data["role"]
    return role


def _change(request: HttpRequest, membership: models.Membership, role: str | None) -> None:
    """Give a role, or None to take the membership away; never from the last owner."""
    others = models.Membership.objects.filter(
        project=membership.project_id, role=models.Role.OWNER
    ).exclude(pk=membership.pk)
    name = {"name": membership.user.get_username()}
    change = Change(models.Changed.MEMBER, membership.role, role, name["name"])
    if role != models.Role.OWNER and not others.exists():
        said = gettext("%(name)s is the only owner. Make somebody else an owner first.")
        messages.error(request, said % name)
        return
    note(request, membership.project, change, now=timezone.now())
    if role is None:
        membership.delete()
        messages.success(request, gettext("%(name)s is no member any more.") % name)
    else:
        membership.role = role
        membership.save(update_fields=["role"])
        messages.success(request, gettext("The role of %(name)s is changed.") % name)


def _another_link(
    request: HttpRequest, project: models.Project, membership: models.Membership
) -> HttpResponse:
    if not may_get_link(membership):
        raise Http404("this user has ways in that are not this project's to give")
    return _show_link(request, project, membership.user)


def may_get_link(membership: models.Membership) -> bool:
    """Whether an owner may make a link that signs a member in, of those that `_members` finds.

    Only for somebody who belongs nowhere else and never came: anything else would be a way into
    what is others'.
    """
    user = membership.user
    is_unused = user.last_login is None and not user.has_usable_password() and not user.is_staff
    return is_unused and membership.projects == 1  # type: ignore[attr-defined]  # annotated
