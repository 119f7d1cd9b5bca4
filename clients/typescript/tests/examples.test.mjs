// The examples as a reader would start them, each at most 40 lines.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "node:test";
import { BIN, deadline, scratch, serve, write } from "./support.mjs";

const example = (name) => fileURLToPath(new URL(`../examples/${name}.mjs`, import.meta.url));

async function chat(name, where, lines, env = {}) {
  const options = { cwd: where.cwd, env: { ...where.env, TRIPLANE_BIN: BIN, ...env }, signal: deadline() };
  const child = spawn(process.execPath, [example(name)], options);
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (err += text));
  child.stdin.end(lines.map((line) => `${line}\n`).join(""));
  const code = await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  assert.equal(code, 0, err);
  return out;
}

for (const name of ["chat-http", "chat-ws", "chat-stdio"]) {
  test(`example ${name}`, async (t) => {
    const text = await readFile(example(name), "utf8");
    assert.ok(text.trimEnd().split("\n").length <= 40, "more than 40 lines");
    const out = await chat(name, await scratch(), ["hello there", "/fail unavailable", "and again"]);
    assert.match(out, /^hello there\n/);
    assert.match(out, /and again\n$/);
    assert.match(out, /error|unavailable/);
  });
}

for (const name of ["chat-http", "chat-stdio"]) {
  test(`example ${name} allows what is asked`, async (t) => {
    const where = await scratch();
    assert.match(await chat(name, where, [write("a.txt", "x")]), /allowed: /);
    assert.ok(existsSync(join(where.cwd, "a.txt")));
  });
}

test("the examples take a server that runs already", async (t) => {
  const where = await scratch();
  const server = await serve(t, ["http", "ws"], where);
  for (const [name, wire] of [["chat-http", server.http], ["chat-ws", server.ws]]) {
    assert.equal(await chat(name, where, ["hello"], { URL: wire.url, TOKEN: wire.token }), "hello\n");
  }
});
