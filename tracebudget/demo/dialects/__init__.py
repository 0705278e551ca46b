"""How spans say what happened: one dialect a file, and who speaks which."""

from __future__ import annotations

from collections.abc import Mapping

from tracebudget.demo import coding, nightly, support
from tracebudget.demo.dialects.ai_sdk import AI_SDK
from tracebudget.demo.dialects.gen_ai import GEN_AI
from tracebudget.demo.dialects.openinference import OPENINFERENCE
from tracebudget.demo.dialects.openllmetry import OPENLLMETRY
from tracebudget.demo.dialects.spelling import SERVING_SCOPE, Dialect, Spelling, serving

DIALECTS: Mapping[str, Dialect] = {
    support.APP: GEN_AI,
    coding.APP: AI_SDK,
    coding.REVIEWER: OPENINFERENCE,
    nightly.APP: OPENLLMETRY,
}

__all__ = ["DIALECTS", "SERVING_SCOPE", "Dialect", "Spelling", "serving"]
