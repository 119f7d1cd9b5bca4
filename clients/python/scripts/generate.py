"""Writes src/triplane/generated from the committed documents in protocol/schema.

The generator is datamodel-code-generator; here its input is only made easier to name: each variant of a union that is told apart
by `type` becomes a definition of its own (`LlmDeltaEvent`, `TextPart`), with what all variants share.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(__file__).resolve().parents[1] / "src" / "triplane" / "generated"
SOURCES = {"larik": "larik.openapi.json", "sepia": "sepia.openrpc.json"}
SUFFIX = {"SessionEvent": "Event", "KnownPart": "Part"}
FLAGS = [
    "--input-file-type=jsonschema",
    "--output-model-type=typing.TypedDict",
    "--target-python-version=3.11",
    "--enum-field-as-literal=all",
    "--no-use-closed-typed-dict",
    "--use-schema-description",
    "--use-field-description",
    "--use-single-line-docstring",
    "--disable-timestamp",
]


def pascal(word: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in word.replace(".", "_").split("_"))


def resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """A variant, with the definition that it names beside its own properties taken in."""
    if "$ref" not in schema:
        return schema
    base = schemas[schema["$ref"].rsplit("/", 1)[1]]
    return {
        "description": schema.get("description", base.get("description")),
        "type": "object",
        "properties": {**base.get("properties", {}), **schema.get("properties", {})},
        "required": [*base.get("required", []), *schema.get("required", [])],
    }


def named(schemas: dict[str, Any]) -> dict[str, Any]:
    out = dict(schemas)
    for name, schema in schemas.items():
        variants = [resolved(one, schemas) for one in schema.get("oneOf", [])]
        if not variants or not all("const" in one.get("properties", {}).get("type", {}) for one in variants):
            continue
        refs = []
        for one in variants:
            title = pascal(one["properties"]["type"]["const"]) + SUFFIX.get(name, name)
            if title in out:
                raise SystemExit(f"{title} is taken")
            out[title] = {
                **one,
                "properties": {**schema.get("properties", {}), **one["properties"]},
                "required": [*schema.get("required", []), *one.get("required", [])],
            }
            refs.append({"$ref": f"#/components/schemas/{title}"})
        out[name] = {"description": schema.get("description"), "oneOf": refs}
    return out


def routes(document: dict[str, Any]) -> str:
    rows = [
        f'    "{operation["operationId"]}": ("{method.upper()}", "{path}"),'
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    return "\n".join(
        ["", "", "ROUTES: dict[str, tuple[str, str]] = {", *sorted(rows), "}", '"""Method and path of each operation."""', ""]
    )


def generate() -> dict[str, str]:
    """Every generated file, by name."""
    files = {}
    for wire, source in SOURCES.items():
        document = json.loads((ROOT / "protocol" / "schema" / source).read_text("utf-8"))
        bundle = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": named(document["components"]["schemas"])}
        text = json.dumps(bundle).replace("#/components/schemas/", "#/$defs/")
        with tempfile.TemporaryDirectory() as work:
            given, made = Path(work, "in.json"), Path(work, "out.py")
            given.write_text(text, "utf-8")
            head = f"# Generated from protocol/schema/{source} by scripts/generate.py; do not edit."
            command = [sys.executable, "-W", "ignore", "-m", "datamodel_code_generator", *FLAGS, f"--custom-file-header={head}"]
            subprocess.run([*command, f"--input={given}", f"--output={made}"], cwd=work, check=True, stderr=subprocess.PIPE)
            body = made.read_text("utf-8").replace("Model: TypeAlias = Any\n\n\n", "")
        files[f"{wire}.py"] = body + (routes(document) if "paths" in document else "")
    return files


def stale() -> list[str]:
    """Names of the files that are not what the documents give."""
    return [
        name
        for name, text in generate().items()
        if not (TARGET / name).exists() or (TARGET / name).read_text("utf-8") != text
    ]


if __name__ == "__main__":
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in generate().items():
        (TARGET / name).write_text(text, "utf-8")
