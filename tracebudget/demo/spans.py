"""Requests as spans of the real OpenTelemetry SDK, with the times at which everything happened."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from tracebudget.demo.dialects import DIALECTS, SERVING_SCOPE, Dialect, Spelling, serving
from tracebudget.demo.work import Call, Frame, Request, Run, Search, Serving, ToolRun, Work

INFERENCE, INFERENCE_RELEASE = "inference", "0.12.0"  # the server behind the support agent
REVIEWER_RELEASE = "2.3.1"
MAX_EVENTS = 4096  # of a span; the SDK's 128 would cut the chunks of a long answer


class _SeededIds(IdGenerator):
    """Ids that a seed decides."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311  (ids of made-up spans)

    def generate_trace_id(self) -> int:
        return self.rng.getrandbits(128) | 1

    def generate_span_id(self) -> int:
        return self.rng.getrandbits(64) | 1


class SpanWriter:
    """Writes requests as spans, in the dialects of their services. Ids follow from the seed."""

    def __init__(self, seed: int) -> None:
        self.ids = _SeededIds(seed)
        self.finished = InMemorySpanExporter()
        self.processor = SimpleSpanProcessor(self.finished)
        self.tracers: dict[tuple[str, str], Tracer] = {}

    def write(self, request: Request) -> Sequence[ReadableSpan]:
        """The spans of one request."""
        self._write(request.root, Context(), request.app, request.release)
        spans = self.finished.get_finished_spans()
        self.finished.clear()
        return spans

    def _write(self, work: Work, context: Context, service: str, release: str) -> None:
        if isinstance(work, Run) and work.service:
            service, release = work.service, REVIEWER_RELEASE
        spelling = _spell(work, DIALECTS[service])
        tracer = self._tracer(service, release, DIALECTS[service].scope)
        inside = self._span(tracer, spelling, work, context)
        if isinstance(work, Run | Frame | ToolRun):
            for inner in work.inside:
                self._write(inner, inside, service, release)
        if isinstance(work, Call) and work.serving is not None:
            tracer = self._tracer(INFERENCE, INFERENCE_RELEASE, SERVING_SCOPE)
            self._span(tracer, serving(work.serving, work), work.serving, inside)

    def _span(
        self, tracer: Tracer, spelling: Spelling, work: Work | Serving, context: Context
    ) -> Context:
        """Write one span; the context in which what is inside it is written."""
        span = tracer.start_span(
            spelling.name,
            context,
            kind=SpanKind(spelling.kind - 1),  # OTLP counts from 1, the SDK from 0
            attributes={k: v for k, v in spelling.attributes.items() if v is not None},
            start_time=work.start,
        )
        for name, moment, attributes in spelling.events:
            span.add_event(name, attributes, timestamp=moment)
        if isinstance(work, Call | ToolRun) and work.error:
            _fail(span, work.error, work.end)
        span.end(work.end)
        return set_span_in_context(span, context)

    def _tracer(self, service: str, release: str, scope: str) -> Tracer:
        if (service, release) not in self.tracers:
            provider = TracerProvider(
                sampler=ALWAYS_ON,
                resource=Resource(
                    {
                        "service.name": service,
                        "service.version": release,
                        "deployment.environment.name": "production",
                    }
                ),
                shutdown_on_exit=False,
                id_generator=self.ids,
                span_limits=SpanLimits(max_events=MAX_EVENTS),
            )
            provider.add_span_processor(self.processor)
            self.tracers[service, release] = provider.get_tracer(scope)
        return self.tracers[service, release]


def _fail(span: Span, error: str, moment: int) -> None:
    span.set_status(Status(StatusCode.ERROR))
    span.add_event("exception", {"exception.type": error}, timestamp=moment)


def _spell(work: Work, dialect: Dialect) -> Spelling:
    match work:
        case Call():
            return dialect.call(work)
        case ToolRun():
            return dialect.tool(work)
        case Search():
            return dialect.search(work)
        case Run():
            return dialect.run(work)
        case Frame():
            return dialect.frame(work)
