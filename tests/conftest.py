"""Options of the test run."""

import os
import tempfile

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-cases",
        action="store_true",
        help="write what the strategies do now into tests/cases, for review in the diff, instead of comparing",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Builds of the tests keep their verdicts apart from the user's, and start with none."""
    folder = tempfile.TemporaryDirectory(prefix="steptp-verdicts-")
    os.environ["STEPTP_CACHE"] = folder.name
    config.add_cleanup(folder.cleanup)
