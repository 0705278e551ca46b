"""What a finding is about: the tools, the agents or the model that a remedy would touch.

Code and subject together name a thing to fix, in whatever request it shows itself. So people can
answer it once, and an app's findings can be counted by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Document = Mapping[str, Any]
MAX_CHARS = 200  # of a subject: names are cut there when they are stored


def subject_of(finding: Document, steps: Mapping[str, Document]) -> str:
    """The subject of a finding of the analysis object; "" where it is about the whole app.

    `steps`: those of the request, by their span ids.
    """
    return _whole_subject(finding, steps)[:MAX_CHARS]


def _whole_subject(finding: Document, steps: Mapping[str, Document]) -> str:
    evidence = finding["evidence"]
    if finding["kind"] != "performance":
        return ""
    if evidence.get("tools"):
        return _joined(evidence["tools"])
    for key in ("tool", "agent", "model"):
        if evidence.get(key):
            return str(evidence[key])
    shown = [steps[span_id] for span_id in finding["span_ids"] if span_id in steps]
    return _joined(filter(None, map(_name, shown)))


def _joined(names: Iterable[Any]) -> str:
    return ", ".join(sorted({str(name) for name in names if name is not None}))


def _name(step: Document) -> str | None:
    """A model call stands for its model, an agent for itself."""
    if step["kind"] == "model_call":
        model: str | None = step["model"]
        return model
    return str(step["name"]) if step["kind"] == "agent" else None
