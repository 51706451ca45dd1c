"""A task whose module takes longer to import than the job's time limit."""

import time
from typing import Any

time.sleep(1.5)


def task(payload: dict[str, Any]) -> Any:
    return payload["x"]
