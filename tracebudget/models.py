"""The whole schema in one read: facts, intent, conclusions.

Facts (what arrived) are never edited; conclusions are rebuilt whole by `store.save_analyses`, never
edited by hand. Times that are computed with are `*_ns` integers; `*_at` columns are aware UTC and
only filter, sort and page.

The tables of facts and conclusions that grow with traffic are partitioned by `day`, the UTC date on
which the first span of their trace arrived, so that retention drops whole traces by dropping
partitions (docs/decisions/0003).
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Privacy(models.TextChoices):
    """What the privacy door lets through, per project."""

    TIMINGS_ONLY = "timings_only", _("Timings only")
    MASKED = "masked", _("Masked")
    FULL = "full", _("Full")


class Role(models.TextChoices):
    OWNER = "owner", _("Owner")
    MEMBER = "member", _("Member")


class Project(models.Model):
    """A tenant: everything below belongs to exactly one, and none sees another's."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=200)
    privacy = models.CharField(max_length=20, choices=Privacy, default=Privacy.TIMINGS_ONLY)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    project = models.ForeignKey(Project, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role, default=Role.MEMBER)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="membership_once")]


class Changed(models.TextChoices):
    """What of a project owners change."""

    PRIVACY = "privacy", _("Privacy mode")
    MEMBER = "member", _("Member")
    INGEST_KEY = "ingest_key", _("Ingest key")
    API_TOKEN = "api_token", _("API token")


class ProjectChange(models.Model):
    """Who changed what when: the audit log of a project. Rows are written once and stay.

    `subject` names the member or the key; `old` and `new` are the mode, the role, or the beginning
    of the key; null: there was, or is, none.
    """

    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    what = models.CharField(max_length=12, choices=Changed)
    subject = models.TextField(default="", db_default="")
    old = models.TextField(null=True)
    new = models.TextField(null=True)
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    changed_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["project", "-id"], name="project_change_latest")]


class Key(models.Model):
    """A secret shown once: stored as a prefix to look it up by and a digest to compare with."""

    project = models.ForeignKey(Project, models.CASCADE)
    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class IngestKey(Key):
    """Lets an exporter send spans into a project.

    Its own limit of spans a second, 0 for none, goes before the setting's.
    """

    max_spans_per_second = models.PositiveIntegerField(null=True)


class ApiToken(Key):
    """Lets a program read a project over the HTTP API."""


class Way(models.TextChoices):
    """How spans came in."""

    HTTP = "http", "HTTP"
    GRPC = "grpc", "gRPC"
    FILE = "file", _("File")


class Signal(models.TextChoices):
    """What an export carried. Only traces are stored."""

    TRACES = "traces", _("Traces")
    METRICS = "metrics", _("Metrics")
    LOGS = "logs", _("Logs")


class Place(models.TextChoices):
    """Where in a span something stands."""

    NAME = "name", _("Span name")
    SPAN = "span", _("Span attribute")
    STATUS_MESSAGE = "status_message", _("Status message")
    TRACE_STATE = "trace_state", _("Trace state")
    EVENT_NAME = "event_name", _("Event name")
    EVENT = "event", _("Event attribute")
    LINK = "link", _("Link attribute")
    SCOPE = "scope", _("Scope attribute")
    RESOURCE = "resource", _("Resource attribute")


class Fate(models.TextChoices):
    """What the privacy door did with a value."""

    KEPT = "kept", _("Kept")
    PSEUDONYM = "pseudonym", _("Pseudonym")
    MASKED = "masked", _("Masked")
    CUT = "cut", _("Cut")
    WITHHELD = "withheld", _("Withheld")  # length and digest remain
    LEFT_OUT = "left_out", _("Left out")  # with its name, or without a trace


class Receipt(models.Model):
    """What came in at one time and what the privacy door did with it: names and counts, no values.

    The counts are of all exports since the receipt before, `fates` of the last of them: rows of
    [place, key, fate, count]. The latest receipts of each project are kept.
    """

    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    at = models.DateTimeField()
    way = models.CharField(max_length=4, choices=Way)
    signal = models.CharField(max_length=7, choices=Signal)
    privacy = models.CharField(max_length=20, choices=Privacy)
    export_count = models.IntegerField()
    span_count = models.IntegerField()  # let in
    refused = models.JSONField()  # spans by reason
    repaired = models.JSONField()  # by what was wrong
    errors = models.JSONField()  # exports refused whole, by message
    fates = models.JSONField()

    class Meta:
        indexes = [models.Index(fields=["project", "-id"], name="receipt_latest")]


class SignInLink(models.Model):
    """A single-use, short-lived way in: `up` prints one on its first start."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)


class App(models.Model):
    """The agent application that owns requests: the root span's `service.name`. Its name is free
    text, its slug is ours.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="apps")
    name = models.TextField()
    slug = models.SlugField(max_length=80)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="app_name_once"),
            models.UniqueConstraint(fields=["project", "slug"], name="app_slug_once"),
        ]

    def __str__(self) -> str:
        return self.name


class Trace(models.Model):
    """One agent request: what arrived of it, and the summary that lists read.

    `revision` counts arrivals of new spans and changes of budgets; an analysis is saved only for
    the revision it read.
    """

    # Without the indexes that Django gives foreign keys: those below begin with the same columns.
    project = models.ForeignKey(Project, models.CASCADE, db_index=False)
    trace_id = models.UUIDField()
    day = models.DateField()
    revision = models.BigIntegerField(default=0)
    failure = models.TextField(default="")  # why the last analysis failed, "" when it did not
    batch_count = models.IntegerField(default=0)
    span_count = models.IntegerField(default=0)
    refused_span_count = models.IntegerField(default=0)  # came when it held MAX_TRACE_SPANS
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    pinned_at = models.DateTimeField(null=True)  # somebody wants it kept: retention passes it by

    # The summary. All null until the first analysis.
    app = models.ForeignKey(App, models.CASCADE, null=True, db_index=False)
    analyzed_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    name = models.TextField(null=True)
    environment = models.TextField(null=True)
    version = models.TextField(null=True)
    session_id = models.TextField(null=True)
    state = models.CharField(max_length=12, null=True)
    has_error = models.BooleanField(null=True)
    agent_names = ArrayField(models.TextField(), null=True)
    model_names = ArrayField(models.TextField(), null=True)
    tool_names = ArrayField(models.TextField(), null=True)
    finding_codes = ArrayField(models.TextField(), null=True)
    breached = ArrayField(models.TextField(), null=True)  # metrics over their limit
    unjudged = ArrayField(models.TextField(), null=True)  # metrics with a limit and no figure
    # Steps of the investigation that could not be told, each with the reason: "4 ttft_unknown".
    unknown_steps = ArrayField(models.TextField(), null=True)
    end_to_end_ns = models.BigIntegerField(null=True)
    prefill_ns = models.BigIntegerField(null=True)
    decode_ns = models.BigIntegerField(null=True)
    tool_ns = models.BigIntegerField(null=True)
    framework_ns = models.BigIntegerField(null=True)
    wait_ns = models.BigIntegerField(null=True)
    unsplit_ns = models.BigIntegerField(null=True)
    unattributed_ns = models.BigIntegerField(null=True)
    overhead_ns = models.BigIntegerField(null=True)  # what the budget of the framework judges
    longest_turn_ns = models.BigIntegerField(null=True)
    turn_ns = ArrayField(models.BigIntegerField(), null=True)  # of the top run's first turns
    turn_count = models.IntegerField(null=True)  # of all runs
    run_turn_count = models.IntegerField(null=True)  # of the top run
    model_call_count = models.IntegerField(null=True)
    tool_call_count = models.IntegerField(null=True)
    ttft_count = models.IntegerField(null=True)  # model calls with a measured or reported TTFT
    worst_ttft_ns = models.BigIntegerField(null=True)
    worst_first_visible_ns = models.BigIntegerField(null=True)
    worst_tpot_ns = models.BigIntegerField(null=True)
    input_tokens = models.BigIntegerField(null=True)  # of all calls
    largest_input_tokens = models.BigIntegerField(null=True)  # of one call
    output_tokens = models.BigIntegerField(null=True)
    saving_ns = models.BigIntegerField(null=True)  # the largest saving that a finding promises

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "trace_id"], name="trace_once")]
        # Rows have no entry in any of them before their first analysis, which rewrites them anyway.
        indexes = [
            models.Index(
                fields=["project", "-started_at", "-id"],
                name="trace_by_start",
                condition=Q(started_at__isnull=False),
            ),
            models.Index(
                fields=["app", "-started_at"],
                name="trace_by_app",
                condition=Q(app__isnull=False),
            ),
            models.Index(
                fields=["project", "session_id", "started_at", "id"],
                name="trace_by_session",
                condition=Q(session_id__isnull=False),
            ),
            models.Index(
                fields=["project", "-pinned_at"],
                name="trace_pinned",
                condition=Q(pinned_at__isnull=False),
            ),
            # For the status page; over columns that hardly ever change, so that others' changes
            # need no new entry.
            models.Index(fields=["-id"], name="trace_failed", condition=~Q(failure="")),
            # Rows stand in the order of arrival: two numbers a block say where a day is.
            BrinIndex(fields=["day"], name="trace_by_day"),
        ]


class Due(models.Model):
    """A trace that waits for its analysis: the queue of work. The row goes when the result comes.

    It is due when `due_at` is in the past, and claimed by moving that forward. Traces of one app
    share a lane, and lanes take turns. A table of its own, because the wide row of the trace, with
    all its index entries, would be written anew by every claim.
    """

    trace = models.OneToOneField(
        Trace, models.CASCADE, primary_key=True, related_name="due", db_constraint=False
    )
    lane = models.SmallIntegerField()
    due_at = models.DateTimeField()
    attempts = models.SmallIntegerField(default=0)  # analyses begun since spans arrived

    class Meta:
        indexes = [models.Index(fields=["lane", "due_at"], name="due_by_lane")]


class DayPartitioned(models.Model):
    """Rows that live and die with their trace's day. No database constraint to the trace: the
    partition is dropped whole.
    """

    pk = models.CompositePrimaryKey("day", "trace_id", "position")
    day = models.DateField()
    trace = models.ForeignKey(Trace, models.DO_NOTHING, db_constraint=False, db_index=False)

    class Meta:
        abstract = True


class SpanBatch(DayPartitioned):
    """The spans of one trace that came in one export request, after the privacy door, packed
    (`packing.pack_spans`).

    The digest is of the content: a request sent again finds its own rows and changes nothing. Head
    and tail are one payload, cut where Postgres would cut it into chunks (`store.arrival`).
    """

    pk = models.CompositePrimaryKey("day", "trace_id", "digest")
    digest = models.BinaryField(max_length=16)
    span_count = models.IntegerField()
    head = models.BinaryField()
    tail = models.BinaryField()

    class Meta:
        db_table = "tracebudget_spanbatch"

    @property
    def payload(self) -> bytes:
        return bytes(self.head) + bytes(self.tail)


class Analysis(DayPartitioned):
    """The analysis object of one trace as compressed JSON: what the page and the API show."""

    pk = models.CompositePrimaryKey("day", "trace_id")
    revision = models.BigIntegerField()
    document = models.BinaryField()

    class Meta:
        db_table = "tracebudget_analysis"


class Concluded(DayPartitioned):
    """Narrow rows for figures over many requests. `position` is the row's place in its list of the
    analysis object.

    The primary key is Django's alone. What is asked for is a trace, to replace its rows, an app, or
    a stretch of time; an index of the key would take twice the bytes of these three together
    (docs/decisions/0003).
    """

    position = models.IntegerField()
    app = models.ForeignKey(App, models.DO_NOTHING, db_constraint=False, db_index=False)
    started_at = models.DateTimeField()

    class Meta:
        abstract = True
        indexes = [
            models.Index(fields=["trace"], name="%(class)s_by_trace"),
            models.Index(fields=["app"], name="%(class)s_by_app"),
            BrinIndex(
                fields=["started_at"],
                name="%(class)s_by_start",
                pages_per_range=32,
                autosummarize=True,
            ),
        ]


class ModelCall(Concluded):
    """One model call."""

    turn = models.IntegerField(null=True)  # index within its run; null in the background
    model = models.TextField(null=True)
    provider = models.TextField(null=True)
    streamed = models.BooleanField(null=True)
    is_error = models.BooleanField()
    attempt = models.IntegerField()
    duration_ns = models.BigIntegerField()
    critical_ns = models.BigIntegerField()
    ttft_ns = models.BigIntegerField(null=True)
    ttft_source = models.CharField(max_length=10)
    ttft_is_bound = models.BooleanField(default=False, db_default=False)  # a lower one
    queue_ns = models.BigIntegerField(null=True)
    tpot_ns = models.BigIntegerField(null=True)
    input_tokens = models.BigIntegerField(null=True)
    cached_input_tokens = models.BigIntegerField(null=True)
    output_tokens = models.BigIntegerField(null=True)
    run = models.IntegerField(null=True)  # of its request, from 0 in the order of their first turns
    # What the tools of the turn before put into the prompt; null: unknown, or there were none.
    tool_result_tokens = models.BigIntegerField(null=True)

    class Meta(Concluded.Meta):
        db_table = "tracebudget_modelcall"


class ToolCall(Concluded):
    """One tool call."""

    turn = models.IntegerField(null=True)
    name = models.TextField()
    is_error = models.BooleanField()
    is_timeout = models.BooleanField()
    attempt = models.IntegerField()
    duration_ns = models.BigIntegerField()
    critical_ns = models.BigIntegerField()

    class Meta(Concluded.Meta):
        db_table = "tracebudget_toolcall"


class Breach(Concluded):
    """One request over one limit."""

    metric = models.TextField()
    limit = models.BigIntegerField()
    value = models.BigIntegerField()
    span_id = models.CharField(max_length=16, null=True)

    class Meta(Concluded.Meta):
        db_table = "tracebudget_breach"


class Finding(Concluded):
    """One diagnosis of one request."""

    code = models.TextField()
    kind = models.CharField(max_length=12)
    severity = models.CharField(max_length=8)
    subject = models.TextField(default="", db_default="")  # what it is about: `core.subject`
    turn = models.IntegerField(null=True)
    saving_ns = models.BigIntegerField(null=True)

    class Meta(Concluded.Meta):
        db_table = "tracebudget_finding"


# --- figures over many requests: from rows of conclusions, rebuilt whole by `store.rollups` ------


class Touched(models.Model):
    """A stretch of an app's time whose requests have changed: the queue of `store.rollups`.

    Writers of conclusions append; a row goes when the stretch was added up after it.
    """

    app = models.ForeignKey(App, models.CASCADE, db_index=False)
    start = models.DateTimeField()


class Level(models.IntegerChoices):
    """How long the stretches of a rollup are, in minutes. Each is made of whole ones before it."""

    TEN_MINUTES = 10, "10 minutes"
    HOUR = 60, "hour"
    SIX_HOURS = 360, "6 hours"
    DAY = 1440, "day"


class Rollup(models.Model):
    """One series (`series.Series`) over the requests of an app and release that started within a
    stretch of time, in UTC. `bins` and `counts` are its sketch (`sketch.Columns`).
    """

    app = models.ForeignKey(App, models.CASCADE, db_index=False)
    level = models.SmallIntegerField(choices=Level)
    start = models.DateTimeField()
    environment = models.TextField()
    version = models.TextField()
    metric = models.TextField()
    name = models.TextField()
    total = models.IntegerField()
    count = models.IntegerField()
    sum = models.DecimalField(max_digits=30, decimal_places=0)  # of many ns, and clocks may be odd
    bins = ArrayField(models.SmallIntegerField())
    counts = ArrayField(models.IntegerField())
    least = models.BigIntegerField(null=True)
    most = models.BigIntegerField(null=True)
    also = models.JSONField()
    made_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["app", "level", "start"], name="rollup_by_stretch")]


class Learned(models.Model):
    """What an app's requests together have taught of it.

    `profile`: `core.profile.Profile.document()`, with which its requests are analysed. `diagnosis`:
    `core.diagnosis.Diagnosis.document()`.
    """

    app = models.OneToOneField(App, models.CASCADE, primary_key=True, related_name="learned")
    changed_at = models.DateTimeField()  # when requests came last
    made_at = models.DateTimeField(null=True)  # when we looked at them last
    profile = models.JSONField(null=True)
    diagnosis = models.JSONField(null=True)


# --- what owners promise --------------------------------------------------------------------------


class Budget(models.Model):
    """What an app's owner promised: at least `objective` percent of requests keep `metric` within
    `limit`.

    `metric` is one of `core.budget.METRICS` or `tool_call:<name>`; `limit` is in the metric's unit,
    ns or a count.
    """

    app = models.ForeignKey(App, models.CASCADE, related_name="budgets")
    metric = models.TextField()
    limit = models.BigIntegerField()
    objective = models.DecimalField(max_digits=5, decimal_places=2, default=95)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["app", "metric"], name="budget_once")]


class BudgetChange(models.Model):
    """Who changed which promise when. A null limit means: there was, or is, none."""

    app = models.ForeignKey(App, models.CASCADE, related_name="budget_changes")
    metric = models.TextField()
    old_limit = models.BigIntegerField(null=True)
    new_limit = models.BigIntegerField(null=True)
    old_objective = models.DecimalField(max_digits=5, decimal_places=2, null=True)
    new_objective = models.DecimalField(max_digits=5, decimal_places=2, null=True)
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    changed_at = models.DateTimeField(auto_now_add=True)


# --- alerts: what was promised and broken, and who was told ---------------------------------------


class AlertRule(models.Model):
    """When an app's alerts open and close. An app without one has `core.alerting.DEFAULT_RULE`."""

    app = models.OneToOneField(App, models.CASCADE, related_name="alert_rule")
    is_on = models.BooleanField(default=True)
    over = models.PositiveSmallIntegerField()
    of_last = models.PositiveSmallIntegerField()
    window_minutes = models.PositiveSmallIntegerField()
    recovery_minutes = models.PositiveSmallIntegerField()


class ChannelKind(models.TextChoices):
    EMAIL = "email", "E-mail"
    WEBHOOK = "webhook", "Webhook"


class Channel(models.Model):
    """A way to tell people: of one app's alerts, or of all in the project.

    `config` is sealed (`alerts.vault`) and never shown; `destination` is what may be. A removed
    channel has lost its config; its row stays for the delivery log.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="channels")
    app = models.ForeignKey(App, models.CASCADE, null=True)  # null: all apps
    kind = models.CharField(max_length=10, choices=ChannelKind)
    name = models.CharField(max_length=100)
    destination = models.TextField()
    config = models.BinaryField()
    is_on = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class Silence(models.Model):
    """Until when nobody is told of one app's alerts, or of any. Alerts open and close as ever."""

    project = models.ForeignKey(Project, models.CASCADE)
    app = models.ForeignKey(App, models.CASCADE, null=True)  # null: all apps
    reason = models.CharField(max_length=200)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    until = models.DateTimeField()


class Alert(models.Model):
    """One promise broken, from the breach that opened it until it was kept again.

    It has copies of all that it tells, and outlives the analyses, the budget and the app. The last
    alert of a budget is also what `core.alerting.look` remembers of it.
    """

    project = models.ForeignKey(Project, models.CASCADE)
    app = models.ForeignKey(App, models.SET_NULL, null=True)
    app_name = models.TextField()
    metric = models.TextField()
    limit = models.BigIntegerField()
    objective = models.DecimalField(max_digits=5, decimal_places=2)
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    kept_since = models.DateTimeField(null=True)  # while open: back within since
    judged_at = models.DateTimeField()  # the last look that had requests to judge
    reopenings = models.PositiveSmallIntegerField(default=0)
    judged = models.IntegerField()  # requests in the window of the last look
    over = models.IntegerField()
    worst = models.BigIntegerField()  # value of any request while it was open
    evidence = ArrayField(models.UUIDField())  # trace ids of requests that show it

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["app", "metric"], name="alert_open_once", condition=Q(closed_at=None)
            )
        ]
        indexes = [
            models.Index(fields=["project", "-opened_at", "-id"], name="alert_by_opening"),
            models.Index(fields=["app", "metric", "-opened_at"], name="alert_by_budget"),
        ]


class AlertEvent(models.Model):
    """A line of an alert's history. `facts` are codes and numbers, from which messages are made."""

    alert = models.ForeignKey(Alert, models.CASCADE, related_name="events")
    change = models.CharField(max_length=16)  # core.alerting.Change, or alerts.watch.CALLED_OFF
    at = models.DateTimeField()
    facts = models.JSONField()


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "waiting"
    SENT = "sent", "sent"
    FAILED = "failed", "failed"
    SILENCED = "silenced", "silenced"


class Delivery(models.Model):
    """One message to one channel: the outbox. Without an event it is a test.

    `next_try_at` is the queue, as `Due.due_at` is: due when it is in the past, claimed by
    moving it forward, null when there is nothing to do. The id goes out with every try, so that a
    reader can tell a repeat.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    channel = models.ForeignKey(Channel, models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(AlertEvent, models.CASCADE, null=True, related_name="deliveries")
    created_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=DeliveryState, default=DeliveryState.WAITING)
    next_try_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["event", "channel"], name="delivery_once")]
        indexes = [
            models.Index(
                fields=["next_try_at"], name="delivery_due", condition=Q(next_try_at__isnull=False)
            ),
            models.Index(fields=["channel", "-created_at"], name="delivery_by_channel"),
        ]


class DeliveryTry(models.Model):
    """A line of the delivery log: what one try met."""

    delivery = models.ForeignKey(Delivery, models.CASCADE, related_name="log")
    at = models.DateTimeField()
    took_ms = models.IntegerField()
    is_success = models.BooleanField()
    answer = models.TextField()  # what the other side said, or why it could not be asked


# --- declared: what should be so, and what people have answered -----------------------------------


class GatewaySettings(models.Model):
    """An app's gateway as its owner declares it: fields of `core.gateway.Gateway` by name."""

    app = models.OneToOneField(App, models.CASCADE, related_name="gateway")
    settings = models.JSONField()


class ToolMark(models.Model):
    """What the owner says of a tool, known by the name of its spans."""

    app = models.ForeignKey(App, models.CASCADE, related_name="tool_marks")
    tool = models.TextField()
    is_read_only = models.BooleanField(default=False)  # its results may be cached
    is_dependent = models.BooleanField(default=False)  # needs the result of the tool before it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["app", "tool"], name="tool_marked_once")]


class DeclarationChange(models.Model):
    """Who declared what when. `what` is a setting, or `tool:` and a name; null means: nothing."""

    app = models.ForeignKey(App, models.CASCADE, related_name="declaration_changes")
    what = models.TextField()
    old = models.TextField(null=True)
    new = models.TextField(null=True)
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    changed_at = models.DateTimeField()


class Verdict(models.TextChoices):
    """What a team says to a finding."""

    ACCEPTED = "accepted", "Accepted"
    DEPENDENT = "dependent", "Dependent"
    NOT_IDEMPOTENT = "not_idempotent", "Not idempotent"
    WILL_NOT_FIX = "will_not_fix", "Will not fix"
    OPEN = "open", "Open again"


class FindingAnswer(models.Model):
    """An answer to a finding, wherever in the app it shows itself. The latest one stands.

    A finding is known by its code and its subject (`core.subject`); rows are never changed, so that
    they are their own history.
    """

    app = models.ForeignKey(App, models.CASCADE, related_name="answers")
    code = models.TextField()
    subject = models.TextField()
    verdict = models.CharField(max_length=20, choices=Verdict)
    note = models.TextField()
    answered_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    answered_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["app", "code", "subject", "-id"], name="answer_latest")]


# --- releases: what one was like, and who vouched for the next ------------------------------------


class Baseline(models.Model):
    """A release's figures as they were when somebody froze them. Rows are never changed; of several
    for one release the latest counts.
    """

    app = models.ForeignKey(App, models.CASCADE, related_name="baselines")
    release = models.TextField()
    environment = models.TextField()  # "" for all of them
    figures = models.JSONField()  # `core.baseline.Figures.document`
    since = models.DateTimeField()  # when the first of its requests started
    until = models.DateTimeField()
    frozen_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    frozen_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["app", "environment", "-id"], name="baseline_latest")]


class ChecklistTick(models.Model):
    """What somebody says of an item of the release checklist that traces cannot tell. The latest
    tick of a release and item stands; rows are their own history.
    """

    app = models.ForeignKey(App, models.CASCADE, related_name="checklist_ticks")
    release = models.TextField()
    item = models.CharField(max_length=30)  # `core.checklist.ITEMS`
    is_done = models.BooleanField()
    note = models.TextField()
    ticked_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True)
    ticked_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["app", "release", "item", "-id"], name="tick_latest")]
