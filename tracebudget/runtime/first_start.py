"""The first start: a project, its owner, the keys to it, and one file that tells them."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from tracebudget import keys, models
from tracebudget.runtime.addresses import local_authority
from tracebudget.runtime.data_dir import write_private
from tracebudget.sign_in import create_sign_in_url

PROJECT, OWNER = "default", "owner"


def make_first_project(credentials_file: Path, *, now: datetime) -> bool:
    """Make the project unless the database has one. Whether it did.

    The file is written before the commit: there is never a project whose keys nobody was told.
    """
    with transaction.atomic():
        if models.Project.objects.exists():
            return False
        project = models.Project.objects.create(slug=PROJECT, name="Default")
        owner = User.objects.create_user(OWNER)  # without a password: the link is the way in
        models.Membership.objects.create(project=project, user=owner, role=models.Role.OWNER)
        _, ingest_key = keys.create_key(project, "first start", models.IngestKey)
        _, api_token = keys.create_key(project, "first start", models.ApiToken)
        credentials = addresses() | {
            "project": project.slug,
            "ingest_key": ingest_key,
            "api_token": api_token,
            "sign_in_url": create_sign_in_url(owner, now=now),
        }
        _tell(credentials_file, credentials)
    return True


def update_addresses(credentials_file: Path) -> None:
    """Tell the addresses of this start, which may have other ports than the first."""
    if credentials_file.exists():
        told = json.loads(credentials_file.read_text())
        _tell(credentials_file, told | addresses())


def announcement(credentials_file: Path, *, is_first: bool) -> str:
    """Where to look, and last the line that scripts wait for."""
    way_in = f"{settings.URL}  (a sign-in link: python manage.py sign_in_link)"
    if is_first:
        way_in = json.loads(credentials_file.read_text())["sign_in_url"]
    doors = addresses()
    return f"""
  Look   {way_in}
  Send   {doors["otlp_url"]}/v1/traces  (gRPC: {doors["grpc_target"]})
  Keys   {credentials_file}

ready: {settings.URL}"""


def addresses() -> dict[str, str]:
    """Where the three doors are, for callers on this machine."""
    return {
        "url": settings.URL,
        "otlp_url": f"http://{local_authority(settings.HOST, settings.OTLP_PORT)}",
        "grpc_target": local_authority(settings.HOST, settings.GRPC_PORT),
    }


def _tell(credentials_file: Path, credentials: dict[str, str]) -> None:
    write_private(credentials_file, json.dumps(credentials, indent=2) + "\n")
