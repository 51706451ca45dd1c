"""PyTorch to LEIR: `translate` a module, `load_source` a file that holds one, `verify_translation` the result."""

from stepTP.frontend.emitter import UnsupportedOp
from stepTP.frontend.reference import InFloat64, in_dtype
from stepTP.frontend.source import LoadedSource, SourceError, load_source, load_text
from stepTP.frontend.translated import translated
from stepTP.frontend.translation import ExportFailed, Translation, bind, translate
from stepTP.frontend.verification import TranslationVerdict, verify_translation

__all__ = [
    "ExportFailed",
    "InFloat64",
    "LoadedSource",
    "SourceError",
    "Translation",
    "TranslationVerdict",
    "UnsupportedOp",
    "bind",
    "in_dtype",
    "load_source",
    "load_text",
    "translate",
    "translated",
    "verify_translation",
]  # fmt: skip
