"""The OpenAPI document: well formed, and true of the running application."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import httpx
import jsonschema
import pytest

from jevserve.api.app import ApiOptions, build_app
from jevserve.api.auth import ENV_KEYS, load_keys
from jevserve.api.openapi import openapi
from jevserve.api.paths import ENDPOINTS, OPENAPI
from tests.fakes import FakeService

DOCUMENT = openapi("", keys=False)
ISSUES = json.loads((Path(__file__).parent / "golden" / "issues.json").read_text())

#: What no schema here expresses: a noul must ask something, if only by its outcomes' descriptions.
BEYOND_SCHEMA = {
    "noul without anything",
    "noul with described nothing",
    "noul criteria of other names",
    "noul with a question",
    "noul with a criterion",
    "deadline float",  # 5.0 is an integer to JSON Schema
}


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = {
        "$ref": f"#/components/schemas/{name}",
        "components": DOCUMENT["components"],
    }
    return jsonschema.Draft202012Validator(schema)


def operations() -> list[tuple[str, str, dict]]:
    return [(p, m, o) for p, methods in DOCUMENT["paths"].items() for m, o in methods.items()]


def test_every_schema_is_a_schema_and_every_reference_resolves():
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = set(DOCUMENT["components"]["schemas"])
    references = json.dumps(DOCUMENT).split('"$ref": "#/components/schemas/')[1:]
    assert {r.partition('"')[0] for r in references} <= names


def test_every_endpoint_is_described_once_by_its_own_name():
    assert set(DOCUMENT["paths"]) == {e.path for e in ENDPOINTS if e is not OPENAPI}
    for path, method, _ in operations():
        (endpoint,) = (e for e in ENDPOINTS if e.path == path)
        assert method.upper() in endpoint.methods
    ids = [o["operationId"] for _, _, o in operations()]
    assert len(set(ids)) == len(ids)


def test_every_example_is_valid_against_its_own_schema():
    checked = 0
    for _, _, operation in operations():
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for body in bodies:
            for content in body.get("content", {}).values():
                examples = [e["value"] for e in content.get("examples", {}).values()]
                examples += [content["example"]] if "example" in content else []
                for example in examples:
                    name = content["schema"]["$ref"].rpartition("/")[2]
                    if name == "SystemOneResponse":
                        example = {**example, "x_jevserve": _account()}
                    validator(name).validate(example)
                    checked += 1
    assert checked > 10


def _account() -> dict:
    numbers = DOCUMENT["components"]["schemas"]["Account"]["required"]
    return {name: "" if name == "replica" else 0 for name in numbers}


@pytest.mark.parametrize("case", ISSUES, ids=lambda c: c["name"])
def test_what_the_door_refuses_the_schema_refuses_too(case):
    allowed = validator("SystemOneRequest").is_valid(case["body"])
    assert allowed == (case["name"] in BEYOND_SCHEMA)


async def test_what_the_application_says_is_what_the_document_says():
    service = FakeService()
    transport = httpx.ASGITransport(app=build_app(service))
    request = DOCUMENT["paths"]["/v1/systemone"]["post"]["requestBody"]["content"]
    example = request["application/json"]["examples"]["ticket"]["value"]
    wrong = copy.deepcopy(example)
    wrong["questions"]["team"]["criteria"] = {}
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        answers = [
            ("/v1/systemone", "post", await client.post("/v1/systemone", json=example)),
            ("/v1/systemone", "post", await client.post("/v1/systemone", json=wrong)),
            (
                "/v1/systemone",
                "post",
                await client.post("/v1/systemone", json=example | {"model": "nope"}),
            ),
            ("/v1/models", "get", await client.get("/v1/models")),
            ("/healthz", "get", await client.get("/healthz")),
            ("/readyz", "get", await client.get("/readyz")),
        ]
        assert (await client.get("/openapi.json")).json() == json.loads(json.dumps(DOCUMENT))
    assert [a.status_code for _, _, a in answers] == [200, 422, 400, 200, 200, 200]
    for path, method, answer in answers:
        described = DOCUMENT["paths"][path][method]["responses"][str(answer.status_code)]
        schema = described["content"]["application/json"]["schema"]["$ref"]
        validator(schema.rpartition("/")[2]).validate(answer.json())
        assert all(name in answer.headers for name in described["headers"])


async def test_with_keys_the_document_asks_for_them_and_is_itself_open():
    options = ApiOptions(keys=load_keys(None, {ENV_KEYS: "good"}))
    transport = httpx.ASGITransport(app=build_app(FakeService(), options))
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
        document = (await client.get("/openapi.json")).json()
    assert document["security"] == [{"bearer": []}, {"header": []}]
