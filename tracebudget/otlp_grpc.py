"""The program behind the gRPC port: `python -m tracebudget.otlp_grpc`."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tracebudget.settings")
django.setup()

from django.conf import settings  # noqa: E402

from ingest.rpc import serve  # noqa: E402
from tracebudget.runtime.addresses import authority  # noqa: E402

if __name__ == "__main__":
    serve(authority(settings.HOST, settings.GRPC_PORT))
