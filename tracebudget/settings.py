"""Every setting, read from the environment once. What each means: docs/settings.md.

`env_*` readers refuse nonsense with the variable's name, so that a typo is an error at start and
not a surprise later. Reading settings writes nothing: `manage.py up` makes the files that are
missing.
"""

from __future__ import annotations

import os
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from tracebudget.runtime import postgres, valkey
from tracebudget.runtime.addresses import local_authority, url_host
from tracebudget.runtime.sockets import socket_directory

KIB, MIB = 1024, 1024 * 1024
BASE_DIR = Path(__file__).resolve().parent.parent


def env_str(name: str, default: str) -> str:
    return os.environ.get(name, "").strip() or default


def env_int(name: str, default: int) -> int:
    text = env_str(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {text!r}") from None


def env_bool(name: str, default: bool) -> bool:
    text = env_str(name, "yes" if default else "no").lower()
    if text in {"1", "yes", "true", "on"}:
        return True
    if text in {"0", "no", "false", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be yes or no, not {text!r}")


def env_choice(name: str, choices: tuple[str, ...]) -> str:
    """One of `choices`, the first of which is the default."""
    text = env_str(name, choices[0])
    if text not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {text!r}")
    return text


def env_list(name: str) -> list[str]:
    """The values between commas."""
    return [word.strip() for word in env_str(name, "").split(",") if word.strip()]


def env_networks(name: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks like `10.0.0.0/8` between commas."""
    try:
        return tuple(ip_network(word) for word in env_list(name))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must list networks: {error}") from None


def env_secret(name: str, file: Path | None = None) -> str:
    """The secret in variable `name`, or in the file that `name`_FILE names, or in `file`, or ""."""
    if secret := env_str(name, ""):
        return secret
    if named := env_str(f"{name}_FILE", ""):
        try:
            return Path(named).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(
                f"{name}_FILE names a file that cannot be read: {error}"
            ) from None
    return file.read_text().strip() if file and file.exists() else ""


def env_database(name: str, default: str) -> dict[str, Any]:
    """A libpq connection URL (or `name`_FILE with one inside) as an entry of DATABASES."""
    try:
        words: dict[str, Any] = conninfo_to_dict(env_secret(name) or default)
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"{name} is no PostgreSQL connection URL: {error}") from None
    named = {
        "NAME": words.pop("dbname", ""),
        "USER": words.pop("user", ""),
        "PASSWORD": words.pop("password", ""),
        "HOST": words.pop("host", ""),
        "PORT": words.pop("port", ""),
    }
    # A database that does not answer must not hold a thread longer than a reader waits: 5 s.
    options = {"connect_timeout": 5} | words
    return {"ENGINE": "django.db.backends.postgresql", **named, "OPTIONS": options}


# ---- where things are ----------------------------------------------------------------------------

DATA_DIR = Path(env_str("TRACEBUDGET_DATA_DIR", str(BASE_DIR / ".tracebudget"))).resolve()
SOCKET_DIR = socket_directory(DATA_DIR)
CREDENTIALS_FILE = DATA_DIR / "credentials.json"
SECRET_KEY_FILE = DATA_DIR / "secret.key"
# Loopback: nothing is reachable from outside unless told to be.
HOST = env_str("TRACEBUDGET_HOST", "127.0.0.1")
PORT = env_int("TRACEBUDGET_PORT", 8000)
OTLP_PORT = env_int("TRACEBUDGET_OTLP_PORT", 4318)
GRPC_PORT = env_int("TRACEBUDGET_GRPC_PORT", 4317)
URL = env_str("TRACEBUDGET_URL", f"http://{local_authority(HOST, PORT)}").rstrip("/")

# ---- programs ------------------------------------------------------------------------------------

LOG_FORMAT = env_choice("TRACEBUDGET_LOG_FORMAT", ("text", "json"))
LOG_LEVEL = env_choice("TRACEBUDGET_LOG_LEVEL", ("INFO", "DEBUG", "WARNING", "ERROR"))
# Counters of all processes, for /metrics. They may go: Prometheus knows that counters begin anew.
METRICS_DIR = Path(env_str("TRACEBUDGET_METRICS_DIR", str(DATA_DIR / "metrics")))
METRICS_TOKEN = env_secret("TRACEBUDGET_METRICS_TOKEN")
WEB_PROCESSES = env_int("TRACEBUDGET_WEB_PROCESSES", 1)
# Decoding is pure CPU. Two take more than most teams send, also on a machine of many cores.
OTLP_PROCESSES = env_int("TRACEBUDGET_OTLP_PROCESSES", min(2, os.cpu_count() or 1))
# Threads of each of them: while one waits for the database, another runs.
HTTP_THREADS = 4
# Requests inside a process at one time. More wait in the kernel, where they cost no memory.
HTTP_BACKPRESSURE = 64
# Analysis is pure CPU: one process a core.
WORKER_PROCESSES = env_int("TRACEBUDGET_WORKER_PROCESSES", os.cpu_count() or 1)
# How far they stand back when cores are short: a third of the share of an equal. The page of a
# request may come a moment later; an export that waits too long is sent again.
WORKER_NICENESS = 5

# ---- Django --------------------------------------------------------------------------------------

DEBUG = env_bool("TRACEBUDGET_DEBUG", False)
SECRET_KEY = env_secret("TRACEBUDGET_SECRET_KEY", SECRET_KEY_FILE)
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "ingest",
    "tracebudget.apps.TracebudgetConfig",
]
MIDDLEWARE = [
    "tracebudget.metrics.measure_exports",
    "django.middleware.security.SecurityMiddleware",
    "tracebudget.web.csp.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # A waterfall is repetitive HTML. BREACH: Django masks CSRF tokens, and pads what it compresses.
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",  # the cookie's language, else the browser's
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",  # unless @login_not_required
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "tracebudget.urls"
WSGI_APPLICATION = "tracebudget.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
# Of messages and commands, and of pages for browsers that ask for no language of ours.
LANGUAGE_CODE = env_choice("TRACEBUDGET_LANGUAGE", ("en", "zh-hans"))
LANGUAGES = [("en", "English"), ("zh-hans", "Simplified Chinese")]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "tracebudget_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600  # a choice that outlives the session
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
TIME_ZONE = "UTC"
USE_TZ = True
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "sign_in"
SIGN_IN_LINK_TTL = timedelta(hours=1)  # a coffee while the first start runs; it works once anyhow
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "UserAttributeSimilarityValidator",
    )
]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        # Without time: whoever collects the lines adds it, `up` too.
        "text": {"format": "%(levelname)s %(name)s: %(message)s"},
        "json": {"()": "tracebudget.runtime.log.JsonFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": [], "level": "INFO"},  # no mail to admins: the root handler has it
        # A tick a second is no news.
        "celery.beat": {"level": "WARNING"},
        "celery.worker.request": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}

# ---- the browser's side --------------------------------------------------------------------------

# A proxy in front of us ends TLS, and sets X-Forwarded-Proto.
HTTPS = urlsplit(URL).scheme == "https"
ALLOWED_HOSTS = [
    "localhost",
    "127.0.0.1",
    "[::1]",
    url_host(URL),
    *env_list("TRACEBUDGET_ALLOWED_HOSTS"),
]
CSRF_TRUSTED_ORIGINS = [URL]
CSRF_FAILURE_VIEW = "tracebudget.web.errors.csrf_failure"
# Cookies are shared by all ports of a host, and every Django on localhost has a "sessionid".
SESSION_COOKIE_NAME = "tracebudget_session"
CSRF_COOKIE_NAME = "tracebudget_csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_SSL_REDIRECT = HTTPS
# Probes and exporters inside the network speak plain HTTP.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$", r"^v1/(traces|logs|metrics)$"]
SECURE_HSTS_SECONDS = 30 * 24 * 3600 if HTTPS else 0
# HSTS for all subdomains, and for ever, is the decision of the domain's owner.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# ---- static files --------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = Path(env_str("TRACEBUDGET_STATIC_ROOT", str(DATA_DIR / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "tracebudget.web.plotly.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "tracebudget.web.static_files.StaticFiles"},
}

# ---- database and broker -------------------------------------------------------------------------

EMBEDDED_DATABASE = not env_secret("DATABASE_URL")
DATABASES = {
    "default": env_database("DATABASE_URL", postgres.database_url(SOCKET_DIR))
    # A connection per thread, kept: ingest pays no connect. Threads are few and fixed, so a pool
    # would only add a queue. The health check makes it survive a restart of the database.
    | {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

EMBEDDED_BROKER = not env_secret("BROKER_URL")
CELERY_BROKER_URL = env_secret("BROKER_URL") or valkey.broker_url(SOCKET_DIR)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a broker that is away is waited for, for ever
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # A message taken by a worker that died comes back after this; it is longer than the longest
    # task and costs nothing, since the next tick does the work first.
    "visibility_timeout": 300,
    "socket_connect_timeout": 2,
    "socket_timeout": 10,
}
CELERY_ACCEPT_CONTENT = ["json"]  # never pickle: a message must not be able to run code
CELERY_TASK_SERIALIZER = "json"
CELERY_TASK_IGNORE_RESULT = True  # results are rows
CELERY_TASK_ACKS_LATE = True  # every task is safe to repeat
CELERY_TASK_DEFAULT_QUEUE = "tracebudget"
# An analysis that never returns is killed; the trace's lease hands it on.
CELERY_TASK_TIME_LIMIT = 120
CELERY_WORKER_CONCURRENCY = WORKER_PROCESSES
# A message says "look at the rows": to hold several helps nobody.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "tracebudget.beat:PatientScheduler"
CELERY_BEAT_SCHEDULE = {
    "analyze_due": {
        "task": "tracebudget.tasks.analyze_due",
        "schedule": 1.0,
        "options": {"expires": 1.0},  # stale when the next one comes, which does the same
    },
    # What pages show of many requests is so old at most, where the worker keeps up.
    "refresh_rollups": {
        "task": "tracebudget.tasks.refresh_rollups",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    # What is usual in an app changes slowly; but a first fit should not keep a newcomer waiting.
    "learn": {
        "task": "tracebudget.tasks.learn",
        "schedule": 15.0,
        "options": {"expires": 15.0},
    },
    # A look at every app with budgets. Windows are long: a second's haste would gain nothing.
    "check_budgets": {
        "task": "tracebudget.tasks.check_budgets",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "deliver_due": {
        "task": "tracebudget.tasks.deliver_due",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "prune": {
        "task": "tracebudget.tasks.prune",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
    "create_partitions": {
        "task": "tracebudget.tasks.create_partitions",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
}

# ---- ingest: what one export may cost ------------------------------------------------------------

# One export on the wire. A full collector batch (8,192 spans) is 2-4 MiB gzipped, 11 MiB plain.
MAX_BODY_BYTES = env_int("TRACEBUDGET_MAX_BODY_BYTES", 16 * MIB)
# The same inflated. JSON becomes eight times that in Python objects: this bounds the process.
MAX_INFLATED_BYTES = env_int("TRACEBUDGET_MAX_INFLATED_BYTES", 32 * MIB)
# One attribute value; more is cut and marked. Nobody reads more of a prompt on a page.
MAX_VALUE_CHARS = env_int("TRACEBUDGET_MAX_VALUE_CHARS", 256 * KIB)
# A trace that holds so many takes no more: each analysis reads all of them, 3 s and 300 MB here.
MAX_TRACE_SPANS = env_int("TRACEBUDGET_MAX_TRACE_SPANS", 50_000)
# A span further ahead of our clock is refused: it would be "the latest" for ever.
MAX_FUTURE_SECONDS = env_int("TRACEBUDGET_MAX_FUTURE_SECONDS", 24 * 3600)
# Statement timeout of the store transaction. Exporters give up after 10 s and send again.
STORE_TIMEOUT_MS = env_int("TRACEBUDGET_STORE_TIMEOUT_MS", 10_000)
# Of one key, to one process, after a burst of ten times as many; more than one process takes, so
# that it bites no honest sender. Lower it where one app must not crowd out others. 0: no limit.
MAX_SPANS_PER_SECOND = env_int("TRACEBUDGET_MAX_SPANS_PER_SECOND", 50_000)
# A project that takes exports without a key from this machine; none by default.
KEYLESS_PROJECT = env_str("TRACEBUDGET_KEYLESS_PROJECT", "")
# What a 503 tells exporters to wait.
RETRY_AFTER_SECONDS = env_int("TRACEBUDGET_RETRY_AFTER_SECONDS", 5)
# How long a revoked key or an old privacy setting may live on; saves a query an export.
KEY_CACHE_SECONDS = env_int("TRACEBUDGET_KEY_CACHE_SECONDS", 5)
# 32 random bytes, made on first use: a stolen database alone does not give content away.
DIGEST_KEY_FILE = Path(env_str("TRACEBUDGET_DIGEST_KEY_FILE", str(DATA_DIR / "digest.key")))

# ---- analysis: when a trace is due ---------------------------------------------------------------

# A trace whose root is here is analysed this long after its last new span.
QUIET_SECONDS = env_int("TRACEBUDGET_QUIET_SECONDS", 2)
# The same while the root is missing: two export intervals (5 s) of the usual SDKs.
QUIET_WITHOUT_ROOT_SECONDS = env_int("TRACEBUDGET_QUIET_WITHOUT_ROOT_SECONDS", 10)
# A trace that never falls quiet is analysed at least this often.
QUIET_CAP_SECONDS = env_int("TRACEBUDGET_QUIET_CAP_SECONDS", 30)
# A claimed trace is due again after this: a killed worker's traces wait no longer (goal: 30 s).
LEASE_SECONDS = env_int("TRACEBUDGET_LEASE_SECONDS", 20)
# Analyses that fail or never return before a trace is left alone until new spans arrive.
MAX_ATTEMPTS = env_int("TRACEBUDGET_MAX_ATTEMPTS", 5)
# Traces claimed at once: their analyses must end well within the lease.
ANALYZE_BATCH = env_int("TRACEBUDGET_ANALYZE_BATCH", 50)
# And their spans, about: one app's monsters must not keep a worker from the others' requests.
ANALYZE_BATCH_SPANS = env_int("TRACEBUDGET_ANALYZE_BATCH_SPANS", 10_000)
# How long one run of the task drains the queue before it hands the worker back.
ANALYZE_SLICE_SECONDS = env_int("TRACEBUDGET_ANALYZE_SLICE_SECONDS", 10)
# New budgets are applied to so many of an app's latest requests: those that people look at next.
JUDGE_AGAIN_REQUESTS = env_int("TRACEBUDGET_JUDGE_AGAIN_REQUESTS", 1_000)
# How long one run adds up figures over many requests before it hands the worker back.
ROLLUP_SLICE_SECONDS = env_int("TRACEBUDGET_ROLLUP_SLICE_SECONDS", 10)
# And how long one run learns of apps what is usual in them.
LEARN_SLICE_SECONDS = env_int("TRACEBUDGET_LEARN_SLICE_SECONDS", 10)

# ---- retention -----------------------------------------------------------------------------------

# A trace goes so many days after its first span came: a month, to compare with; 0: never. That is
# 1.8 GB of disk for each span a second.
RETENTION_DAYS = env_int("TRACEBUDGET_RETENTION_DAYS", 30)
# An alert goes so many days after it closed, with what was told of it; its evidence stays as long.
# Few and small: long enough to look back at the same season a year ago. 0: never.
ALERT_RETENTION_DAYS = env_int("TRACEBUDGET_ALERT_RETENTION_DAYS", 365)
# A first run over a year of data deletes for long; it holds one process of the worker.
PRUNE_TIME_LIMIT = 3600

# ---- alerts --------------------------------------------------------------------------------------

# Requests of an app that one look reads at most; of a busier app it sees the latest of the hour.
CHECK_MAX_REQUESTS = env_int("TRACEBUDGET_CHECK_MAX_REQUESTS", 100_000)
# Fernet keys, the newest first, made on first use: a stolen database alone gives no channel away.
CHANNEL_KEY_FILE = Path(env_str("TRACEBUDGET_CHANNEL_KEY_FILE", str(DATA_DIR / "channel.key")))
# Where webhooks may go besides public addresses. Whoever may edit a channel may then call there.
WEBHOOK_NETWORKS = env_networks("TRACEBUDGET_WEBHOOK_NETWORKS")
# One try, from the name's look-up to the answer's last byte. It holds a place in the worker.
DELIVERY_SECONDS = env_int("TRACEBUDGET_DELIVERY_SECONDS", 10)
# A message that could not be delivered for so long tells old news.
DELIVERY_HOURS = env_int("TRACEBUDGET_DELIVERY_HOURS", 24)

EMAIL_HOST = env_str("TRACEBUDGET_SMTP_HOST", "")
EMAIL_PORT = env_int("TRACEBUDGET_SMTP_PORT", 587)
EMAIL_HOST_USER = env_str("TRACEBUDGET_SMTP_USER", "")
EMAIL_HOST_PASSWORD = env_secret("TRACEBUDGET_SMTP_PASSWORD")
SMTP_SECURITY = env_choice("TRACEBUDGET_SMTP_SECURITY", ("starttls", "tls", "none"))
EMAIL_USE_TLS = SMTP_SECURITY == "starttls"
EMAIL_USE_SSL = SMTP_SECURITY == "tls"
EMAIL_TIMEOUT = DELIVERY_SECONDS
DEFAULT_FROM_EMAIL = env_str("TRACEBUDGET_MAIL_FROM", f"Tracebudget <tracebudget@{url_host(URL)}>")
