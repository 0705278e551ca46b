"""Pages and the HTTP API. Everything of a project stands below /p/<project>/."""

from django.contrib.auth.decorators import login_not_required
from django.urls import include, path, register_converter
from django.views.i18n import set_language

from tracebudget.web import (
    account,
    alerts,
    api,
    audit,
    budgets_page,
    declared,
    findings,
    keys,
    members,
    project_settings,
    projects,
    release,
    sessions,
    setup,
    sign_in,
    views,
)
from tracebudget.web.converters import SpanId, TraceId
from tracebudget.web.status import status_page

register_converter(TraceId, "trace_id")
register_converter(SpanId, "span_id")

project_pages = [
    path("", views.apps_page, name="apps"),
    path("apps/<slug:app>/", views.app_page, name="app"),
    path("apps/<slug:app>/budgets/", budgets_page.budgets_page, name="budgets"),
    path("apps/<slug:app>/budgets.yaml", budgets_page.budgets_file, name="budgets_file"),
    path("apps/<slug:app>/declared/", declared.declared_page, name="declared"),
    path("apps/<slug:app>/declared/tools/", declared.mark_tools, name="mark_tools"),
    path("apps/<slug:app>/findings/", findings.findings_page, name="findings"),
    path("apps/<slug:app>/findings/answer/", findings.answer, name="answer_finding"),
    path("apps/<slug:app>/release/", release.release_page, name="release"),
    path("apps/<slug:app>/release.md", release.release_file, name="release_file"),
    path("apps/<slug:app>/release/tick/", release.tick, name="tick"),
    path("apps/<slug:app>/release/freeze/", release.freeze, name="freeze"),
    path("apps/<slug:app>/alerts/", alerts.app_alerts_page, name="app_alerts"),
    path("alerts/", alerts.alerts_page, name="alerts"),
    path("alerts/<int:alert>/", alerts.alert_page, name="alert"),
    path("alerts/silences/", alerts.silence, name="silence"),
    path("alerts/silences/<int:silence>/end/", alerts.end_silence, name="end_silence"),
    path("alerts/channels/", alerts.channels_page, name="channels"),
    path("alerts/channels/<int:channel>/", alerts.channel_page, name="channel"),
    path(
        "alerts/channels/<int:channel>/<slug:action>/",
        alerts.change_channel,
        name="change_channel",
    ),
    path("status/", status_page, name="status"),
    path("setup/", setup.setup_page, name="setup"),
    path("settings/keys/", keys.keys_page, name="keys"),
    path("settings/keys/<slug:kind>/<int:key>/revoke/", keys.revoke_key, name="revoke_key"),
    path("settings/members/", members.members_page, name="members"),
    path(
        "settings/members/<int:member>/<slug:action>/", members.change_member, name="change_member"
    ),
    path("settings/privacy/", project_settings.privacy_page, name="privacy"),
    path("settings/received/", project_settings.received_page, name="received"),
    path("settings/retention/", project_settings.retention_page, name="retention"),
    path("settings/audit/", audit.audit_page, name="audit"),
    path("sessions/", sessions.session_page, name="session"),
    path("requests/", views.requests_page, name="requests"),
    path("requests/<trace_id:trace_id>/", views.request_page, name="request"),
    path("requests/<trace_id:trace_id>/pin/", views.pin, name="pin"),
    path("requests/<trace_id:trace_id>/rows/", views.rows_part, name="request_rows"),
    path("requests/<trace_id:trace_id>/otlp/", views.request_otlp, name="request_otlp"),
    path("requests/<trace_id:trace_id>/spans/", views.spans_page, name="request_spans"),
    path(
        "requests/<trace_id:trace_id>/spans/<span_id:span_id>/",
        views.span_page,
        name="request_span",
    ),
]

api_paths = [
    path("requests", api.list_requests, name="api_requests"),
    path("requests/<trace_id:trace_id>", api.show_request, name="api_request"),
    path("apps/<slug:app>/gate", api.show_gate, name="api_gate"),
]

urlpatterns = [
    path("", projects.home_page, name="home"),
    path("sign-in/", sign_in.sign_in, name="sign_in"),
    path("sign-in/<str:token>/", sign_in.sign_in_by_link, name="sign_in_by_link"),
    path("sign-out/", sign_in.sign_out, name="sign_out"),
    path("account/", account.account_page, name="account"),
    path("language/", login_not_required(set_language), name="language"),
    path("projects/", projects.projects_page, name="projects"),
    path("p/<slug:project>/", include(project_pages)),
    path("api/v1/projects/<slug:project>/", include(api_paths)),
]
