"""How static files are stored: named by their digest, compressed, and for ever in caches."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # it has no types
    """Modules that import each other do so by digest, too: no page runs half of an old version."""

    support_js_module_import_aggregation = True
