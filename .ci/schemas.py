"""Holds every schema within the committed documents against the meta-schema of JSON Schema 2020-12, and resolves every `$ref`.

    python schemas.py DIR
"""

import json
import pathlib
import sys

from jsonschema import Draft202012Validator


def refs(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from refs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from refs(inner)


def schemas(document):
    """Every schema of a document, with its place."""
    for holder in ("components/schemas", "$defs"):
        found = document
        for part in holder.split("/"):
            found = found.get(part, {})
        for name, schema in found.items():
            yield f"{holder}/{name}", schema
    for method in document.get("methods", []):
        yield f"{method['name']}: result", method["result"]["schema"]
        for param in method["params"]:
            yield f"{method['name']}: {param['name']}", param["schema"]
    for notification in document.get("x-notifications", []):
        yield notification["name"], notification["params"]["schema"]
    for path, item in document.get("paths", {}).items():
        for verb, operation in item.items():
            for param in operation.get("parameters", []):
                yield f"{verb} {path}: {param['name']}", param["schema"]
            for status, response in operation["responses"].items():
                for kind, body in response.get("content", {}).items():
                    for name in ("schema", "x-event-schema"):
                        if name in body:
                            yield f"{verb} {path}: {status} {kind}", body[name]


wrong = count = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    document = json.loads(path.read_text())
    for place, schema in schemas(document):
        count += 1
        for error in Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema):
            wrong += 1
            print(f"{path.name}: {place}: {error.message}")
    for ref in refs(document):
        at = document
        try:
            for part in ref.removeprefix("#/").split("/"):
                at = at[part]
        except (KeyError, TypeError):
            wrong += 1
            print(f"{path.name}: {ref} points at nothing")
print(f"{count} schemas")
sys.exit(1 if wrong or not count else 0)
