// Writes src/generated from the committed documents in protocol/schema. `--check` compares instead, and fails on a difference.
// One generator for all: openapi-typescript reads larik's document as it is, and those of the JSON-RPC wires as an OpenAPI
// document without paths, in which every method is a pair of params and result.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const SCHEMAS = join(here, "../../../protocol/schema");
const TARGET = join(here, "../src/generated");

const schema = async (name) => JSON.parse(await readFile(join(SCHEMAS, name), "utf8"));
const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });

/** `$ref` beside `properties` says both in JSON Schema 2020-12; the generator reads only the former, so that it is told apart. */
function both(schema) {
  if (Array.isArray(schema)) return schema.map(both);
  if (typeof schema !== "object" || schema === null) return schema;
  const { $ref, ...rest } = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, both(value)]));
  if ($ref === undefined) return rest;
  return rest.properties === undefined ? { $ref, ...rest } : { allOf: [{ $ref }, rest] };
}

function params(method) {
  const properties = Object.fromEntries(
    method.params.map((one) => [one.name, { ...one.schema, description: one.description }]),
  );
  return object(properties, method.params.filter((one) => one.required).map((one) => one.name));
}

/** An OpenRPC document as OpenAPI: its types, and two tables, `Methods` and `Notifications`. */
function wrapped(rpc) {
  const methods = rpc.methods.map((method) => [
    method.name,
    { ...object({ params: params(method), result: method.result.schema }), description: method.description ?? method.summary },
  ]);
  const notifications = rpc["x-notifications"].map((one) => [one.name, { ...one.params.schema, description: one.description }]);
  const schemas = {
    ...rpc.components.schemas,
    Methods: object(Object.fromEntries(methods)),
    Notifications: object(Object.fromEntries(notifications)),
  };
  return { openapi: "3.1.0", info: rpc.info, paths: {}, components: { schemas } };
}

/** Where each operation of larik's is found. */
function routes(document) {
  const lines = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(
      ([method, operation]) => `  ${operation.operationId}: ["${method.toUpperCase()}", ${JSON.stringify(path)}],`,
    ),
  );
  return ["/** Method and path of each operation. */", "export const routes = {", ...lines.sort(), "} as const;", ""].join("\n");
}

async function render(document, source, extra = "") {
  const head = `// Generated from protocol/schema/${source} by \`npm run generate\`; do not edit.\n\n`;
  // A field with a default is one that a client may leave out.
  const ast = await openapiTS(both(document), { defaultNonNullable: false, alphabetize: true });
  return head + astToString(ast) + extra;
}

/** Every generated file, by name. */
export async function generate() {
  const larik = await schema("larik.openapi.json");
  return {
    "larik.ts": await render(larik, "larik.openapi.json", `\n${routes(larik)}`),
    "lich.ts": await render(wrapped(await schema("lich.openrpc.json")), "lich.openrpc.json"),
    "sepia.ts": await render(wrapped(await schema("sepia.openrpc.json")), "sepia.openrpc.json"),
  };
}

/** Names of the files that are not what the documents give. */
export async function stale() {
  const files = Object.entries(await generate());
  const read = files.map(async ([name, text]) => (await readFile(join(TARGET, name), "utf8").catch(() => "")) !== text);
  const differs = await Promise.all(read);
  return files.map(([name]) => name).filter((_, at) => differs[at]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--check")) {
    const names = await stale();
    if (names.length) throw new Error(`stale: ${names.join(", ")}; run: npm run generate`);
  } else {
    await mkdir(TARGET, { recursive: true });
    for (const [name, text] of Object.entries(await generate())) await writeFile(join(TARGET, name), text);
  }
}
