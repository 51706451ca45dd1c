"""A task whose module starts a thread when it is imported, which never ends: no process with it may fork."""

import threading
from typing import Any

threading.Thread(target=threading.Event().wait).start()


def threads(payload: dict[str, Any]) -> int:  # noqa: ARG001
    """How many threads its process has."""
    return threading.active_count()
