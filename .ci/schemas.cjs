// Holds an OpenRPC document against the meta-schema of its version: node schemas.cjs DOCUMENT
const fs = require("node:fs");
const { validateOpenRPCDocument } = require("@open-rpc/schema-utils-js");

const document = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const verdict = validateOpenRPCDocument(document);
if (verdict !== true) {
  console.error(verdict.message ?? verdict);
  process.exit(1);
}
