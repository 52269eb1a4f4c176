"""schemathesis against our own OpenAPI document: what it allows and what it forbids.

Requests come from the document alone, so this finds where the document and the application part
ways; ``fuzz.py`` sends what no document describes.
"""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

from jevserve.api.app import build_app
from tests.fakes import FakeService

#: Left out is ``positive_data_acceptance``: the document allows what only a model can refuse, such
#: as its name, images, and a noul that asks nothing. The rest is about authentication and about
#: resources that are made and deleted, of which there are none here.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)

schemathesis.checks.load_all_checks()
checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
project = ProjectConfig(generation=GenerationConfig(deterministic=True))
document = schemathesis.openapi.from_asgi(
    "/openapi.json",
    build_app(FakeService()),
    config=SchemathesisConfig(seed=7, projects=ProjectsConfig(default=project)),
)


def generated(examples: int) -> settings:
    """Settings under which each operation gets this many cases, besides the systematic ones."""
    return settings(
        max_examples=examples,
        deadline=None,
        # Bodies that are valid at every level are rare and slow to make.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


@document.parametrize()
@generated(60)
def test_the_application_keeps_to_its_document(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=checks)


@pytest.mark.long
@document.parametrize()
@generated(2_000)
def test_the_application_keeps_to_its_document_in_thousands_of_cases(
    case: schemathesis.Case,
) -> None:
    case.call_and_validate(checks=checks)
