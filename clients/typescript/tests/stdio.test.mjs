// The stdio client against the real server, as its child.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { StdioClient, TriplaneError, spawnStdio } from "../dist/index.js";
import { deadline, said, scratch, types, until, write } from "./support.mjs";

const fails = (...codes) => (error) => TriplaneError.is(error, ...codes);

async function spawned(t, more = {}) {
  const where = await scratch();
  const client = await spawnStdio({ ...where, restart: { minMs: 10 }, signal: deadline(), ...more });
  t.after(() => client.kill());
  const create = () => client.create({ cwd: where.cwd }, { signal: deadline() });
  return { client, create, where };
}

/** A server that says it speaks another version, or dies at once. */
const fake = (script) => ({ command: process.execPath, args: ["-e", script], stderr: "ignore", restart: false });

test("the manifest is read, and its protocol checked", async (t) => {
  const { client } = await spawned(t);
  assert.equal(client.manifest.protocol, 1);
  assert.ok(client.manifest.methods.includes("sessions.prompt"));
  const later = `process.stdin.once("data", () => console.log('{"jsonrpc":"2.0","id":1,"result":{"protocol":2,"methods":[]}}'))`;
  await assert.rejects(spawnStdio(fake(later)), fails("protocol"));
  await assert.rejects(spawnStdio(fake(`console.log("hello")`)), fails("protocol"));
  await assert.rejects(spawnStdio(fake(`process.exit(3)`)), fails("disconnected"));
  await assert.rejects(spawnStdio({ command: "no-such-program", restart: false }), fails("disconnected"));
  const slow = { ...fake(`setInterval(() => {}, 1000)`), signal: AbortSignal.timeout(100) };
  await assert.rejects(spawnStdio(slow), { name: "TimeoutError" });
});

test("a process that was given up while it started is ended all the same", async () => {
  const client = new StdioClient(fake(`setInterval(() => {}, 1000)`));
  const call = client.call("manifest", {});
  await client.kill();
  await assert.rejects(call, fails("disconnected"));
  assert.throws(() => process.kill(client.pid, 0), { code: "ESRCH" });
});

test("a run: its events, and its outcome", async (t) => {
  const { client, create } = await spawned(t);
  const session = await create();
  for (const text of ["hello there", "and again"]) {
    const run = session.run(text, { signal: deadline() });
    const events = [];
    for await (const event of run) events.push(event);
    const result = await run.result;
    assert.deepEqual([result.reply, result.stopReason], [text, "completed"]);
    assert.equal(said(events), text);
    assert.deepEqual([types(events).at(0), types(events).at(-1)], ["runStarted", "runFinished"]);
  }
  assert.equal((await session.prompt([{ type: "text", text: "parts" }])).reply, "parts");
  assert.equal((await session.history({ limit: 2 })).messages.length, 2);
  assert.equal((await session.get()).messages.length, 6);
  assert.equal((await client.list({ withLocks: true }))[0].lock.state, "held");
  assert.ok((await client.agents()).some((agent) => agent.capabilities.prompt));
});

test("two readers of a session share one subscription; it ends with the session", async (t) => {
  const { create } = await spawned(t);
  const session = await create();
  const readers = [session.events({ signal: deadline() }), session.events({ signal: deadline() })];
  await Promise.all(readers.map((one) => one.ready));
  await session.prompt("hello");
  await session.detach();
  const all = await Promise.all(readers.map((one) => until(one, () => false)));
  for (const seen of all) {
    assert.deepEqual(seen.map((one) => one.seq), seen.map((_, at) => seen[0].seq + at));
    assert.equal(types(seen).at(-1), "sessionClosed");
  }
  const late = session.events();
  await assert.rejects(late.next(), fails("not_found"));
});

test("permissions: answered by a helper, and by hand", async (t) => {
  const { create, where } = await spawned(t);
  const session = await create();
  const result = await session.prompt(write("a.txt", "x"), { onPermission: () => true, signal: deadline() });
  assert.equal(result.stopReason, "completed");
  assert.ok(existsSync(join(where.cwd, "a.txt")));
  const run = session.run(write("b.txt", "x"), { signal: deadline() });
  const outcomes = [];
  for await (const event of run) {
    if (event.type === "permissionRequest") {
      await session.deny(event);
      await assert.rejects(session.allow(event), fails("not_found"));
    }
    if (event.type === "permissionResolved") outcomes.push(event.outcome);
  }
  assert.deepEqual(outcomes, ["denied"]);
  assert.ok(!existsSync(join(where.cwd, "b.txt")));
  const broken = () => { throw new Error("no answer"); };
  await assert.rejects(session.prompt(write("c.txt", "x"), { onPermission: broken, signal: deadline() }), /no answer/);
  assert.equal(await session.cancel(), false);
});

test("abort: the call rejects with the reason, and the run is cancelled", async (t) => {
  const { create } = await spawned(t);
  const session = await create();
  const controller = new AbortController();
  const reason = new Error("enough");
  const run = session.run("/say a\n/sleep 60000", { signal: controller.signal });
  await assert.rejects(async () => {
    for await (const event of run) if (event.type === "textDelta") controller.abort(reason);
  }, reason);
  await assert.rejects(run.result, reason);
  assert.equal((await session.prompt("next", { signal: deadline() })).reply, "next");
  const second = session.run("/say a\n/sleep 60000", { signal: deadline() });
  for await (const event of second) if (event.type === "textDelta") assert.equal(await session.cancel(), true);
  assert.equal((await second.result).stopReason, "aborted");
});

test("errors carry the server's code", async (t) => {
  const { client, create } = await spawned(t);
  await assert.rejects(client.attach("01a22f1b-0000-7000-8000-000000000000"), fails("not_found"));
  await assert.rejects(client.create({}), fails("invalid_params"));
  const session = await create();
  const run = session.prompt("/sleep 60000", { signal: deadline() });
  await assert.rejects(session.prompt("x", { signal: deadline() }), fails("busy"));
  await session.cancel();
  assert.equal((await run).stopReason, "aborted");
});

test("the node's feed tells who comes and goes", async (t) => {
  const { client, create } = await spawned(t);
  const feed = client.nodeEvents({ signal: deadline() });
  await feed.ready;
  const session = await create();
  await session.detach();
  const seen = await until(feed, (event) => event.type === "detached");
  assert.deepEqual(types(seen).filter((type) => type !== "sessionEvents"), ["created", "detached"]);
});

test("a process that dies is started again for the next call; a read is sent again, a prompt is not", async (t) => {
  const { client, create, where } = await spawned(t);
  const session = await create();
  await session.prompt("kept", { signal: deadline() });
  const events = session.events();
  await events.ready;
  const run = session.prompt("/sleep 60000", { signal: deadline() });
  await until(session.events({ signal: deadline() }), (event) => event.type === "turnStarted");
  const listed = client.list({ signal: deadline() });
  process.kill(client.pid, "SIGKILL");
  await assert.rejects(run, fails("disconnected"));
  await assert.rejects(until(events, () => false), fails("disconnected"));
  assert.equal((await listed)[0].id, session.id);
  const again = await client.attach(session.id, { takeover: true }, { signal: deadline() });
  assert.equal((await again.prompt("after", { signal: deadline() })).reply, "after");
  assert.ok(existsSync(where.cwd));
  await client.close();
  await assert.rejects(client.list(), fails("disconnected"));
});
