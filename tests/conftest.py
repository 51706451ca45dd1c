"""Options of the test run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-cases",
        action="store_true",
        help="write what the strategies do now into tests/cases, for review in the diff, instead of comparing",
    )
