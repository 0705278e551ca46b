"""OTLP over gRPC: the same keys, the same door and the same answers as over HTTP."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import NoReturn
from urllib.parse import unquote

import grpc
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from ingest import otlp
from ingest.auth import Caller
from ingest.errors import INTERNAL, OtlpError, retried_when_away
from ingest.intake import ignore, receive
from tracebudget.models import Signal, Way

logger = logging.getLogger(__name__)

Messages = Iterator[bytes]
Answer = Callable[[Messages, grpc.ServicerContext], bytes]

COLLECTOR = "opentelemetry.proto.collector"
TRACES = f"{COLLECTOR}.trace.v1.TraceService"
IGNORED = {
    f"{COLLECTOR}.logs.v1.LogsService": Signal.LOGS,
    f"{COLLECTOR}.metrics.v1.MetricsService": Signal.METRICS,
}
CODES = {code.value[0]: code for code in grpc.StatusCode}
DETAILS = "grpc-status-details-bin"  # where clients look for the google.rpc.Status

# Calls of one connection at a time. More wait at the sender, where they cost us no memory.
MAX_STREAMS = 64
# What a call may send before a thread takes it. An export is smaller; 32 of 30 MiB at once took
# 870 MB without this limit, and take 250.
WINDOW_BYTES = 1024 * 1024
# How often senders may ask whether we live. By default, once in five minutes: the connections of
# those who keep theirs alive would be ended.
MIN_PING_MS = 10_000
STOP_SECONDS = 2.0  # calls that have begun may end


def serve(address: str) -> None:
    """Serve at `host:port` until SIGTERM or Ctrl-C. RuntimeError when the port is taken."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    server = make_server()
    server.add_insecure_port(address)
    server.start()
    logger.info("Listening on %s", address)
    stopping.wait()
    server.stop(STOP_SECONDS).wait()


def make_server() -> grpc.Server:
    """The server, without a port yet."""
    server = grpc.server(
        ThreadPoolExecutor(settings.HTTP_THREADS),
        options=[
            # of a message, and of what it inflates to
            ("grpc.max_receive_message_length", settings.MAX_INFLATED_BYTES),
            ("grpc.max_concurrent_streams", MAX_STREAMS),
            ("grpc.http2.bdp_probe", 0),  # it would widen the window to whole messages
            ("grpc.http2.lookahead_bytes", WINDOW_BYTES),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", MIN_PING_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.so_reuseport", 0),  # two servers on one port would share the calls unnoticed
        ],
    )
    answers = {TRACES: export_traces}
    answers |= {service: ignore_export(signal) for service, signal in IGNORED.items()}
    server.add_generic_rpc_handlers([_service(name, answer) for name, answer in answers.items()])
    return server


def _service(name: str, answer: Answer) -> grpc.GenericRpcHandler:
    """Takes and gives bytes: what gRPC itself cannot decode, it answers with an INTERNAL error.

    On the wire, a stream of one message is a message. But gRPC reads a message at once, also those
    of calls that wait for a thread, and a stream when it is asked: then no more messages are in
    memory than threads work, and none of strangers.
    """
    return grpc.method_handlers_generic_handler(
        name, {"Export": grpc.stream_unary_rpc_method_handler(answer)}
    )


def answers_in_grpc(answer: Answer) -> Answer:
    """Refusals become a status; the thread's database connection is looked after, as by Django."""

    @wraps(answer)
    def wrapped(messages: Messages, context: grpc.ServicerContext) -> bytes:
        close_old_connections()
        try:
            with retried_when_away():
                return answer(messages, context)
        except OtlpError as error:
            _abort(context, error)
        except Exception:
            logger.exception("An export over gRPC failed")
            _abort(context, INTERNAL)
        finally:
            close_old_connections()

    return wrapped


@answers_in_grpc
def export_traces(messages: Messages, context: grpc.ServicerContext) -> bytes:
    """Store the spans of one export request; durable before the answer."""
    read = partial(read_message, messages)
    export = receive(caller_of(context), otlp.PROTOBUF, read, now=timezone.now())
    return otlp.export_answer(export).SerializeToString()


def ignore_export(signal: Signal) -> Answer:
    @answers_in_grpc
    def answer(messages: Messages, context: grpc.ServicerContext) -> bytes:
        """A success without effect: see intake.ignore."""
        read = partial(read_message, messages)
        export = ignore(caller_of(context), signal, read, now=timezone.now())
        return otlp.export_answer(export).SerializeToString()

    return answer


def read_message(messages: Messages) -> bytes:
    """OtlpError 400 where none comes: the call was ended, also by gRPC for a message too large."""
    try:
        return next(messages)
    except (StopIteration, grpc.RpcError) as error:
        raise OtlpError(400, "The call ended before its message had come.") from error


def caller_of(context: grpc.ServicerContext) -> Caller:
    """Of the call's metadata what is text. gRPC has the names in lower case."""
    pairs = context.invocation_metadata()
    headers = {name: value for name, value in pairs if isinstance(value, str)}
    return Caller(headers, address_of(context.peer()), Way.GRPC)


def address_of(peer: str) -> str:
    """The IP address in what gRPC calls a peer: `ipv4:127.0.0.1:50000`, `ipv6:%5B::1%5D:50000`."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")


def _abort(context: grpc.ServicerContext, error: OtlpError) -> NoReturn:
    status = otlp.error_status(error)
    context.set_trailing_metadata(((DETAILS, status.SerializeToString()),))
    context.abort(CODES[status.code], status.message)
