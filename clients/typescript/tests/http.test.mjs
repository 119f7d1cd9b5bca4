// The HTTP client against the real server.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { TriplaneError, connectHttp } from "../dist/index.js";
import { TOKEN, deadline, line, said, scratch, serve, types, until, write } from "./support.mjs";

const reconnect = { minMs: 10, maxMs: 100 };
const fails = (...codes) => (error) => TriplaneError.is(error, ...codes);

async function connected(t, where) {
  const { http } = await serve(t, ["http"], where);
  return connectHttp(http.url, { token: http.token, reconnect, signal: deadline() });
}

const contiguous = (items, from = items[0].seq) => assert.deepEqual(items.map((one) => one.seq), items.map((_, at) => from + at));

test("a run: its events in order, and its outcome", async (t) => {
  const client = await connected(t);
  const session = await client.create({ title: "one" });
  const run = session.run("hello there", { signal: deadline() });
  const items = [];
  for await (const item of run) items.push(item);
  const result = await run.result;
  assert.equal(result.text, "hello there");
  assert.equal(result.stopped_reason, "completed");
  assert.equal(said(items), "hello there");
  contiguous(items);
  assert.deepEqual([items[0].type, items[0].busy], ["status", true]);
  assert.deepEqual([items.at(-1).type, items.at(-1).busy], ["status", false]);
  assert.equal((await session.prompt("again")).text, "again");
});

test("a run that fails is an outcome, with what failed", async (t) => {
  const session = await (await connected(t)).create();
  const result = await session.prompt("/fail unavailable", { signal: deadline() });
  assert.equal(result.stopped_reason, "error");
  assert.equal(typeof result.error?.code, "string");
});

test("errors carry the server's code and status", async (t) => {
  const { http } = await serve(t, ["http"]);
  await assert.rejects(connectHttp(http.url, { token: "wrong" }), fails("unauthorized"));
  const client = await connectHttp(`${http.url}/`, { token: http.token });
  await assert.rejects(client.session("01a22f1b-0000-7000-8000-000000000000").view(), (error) => fails("not_found")(error) && error.status === 404);
  const session = await client.create();
  await session.start("/sleep 60000");
  await assert.rejects(session.start("two"), fails("busy"));
  assert.equal(await session.cancel(), true);
  await assert.rejects(session.patch({ mode: "none" }), fails("invalid_params"));
  await assert.rejects(connectHttp("http://127.0.0.1:1", { token: "x" }), fails("disconnected"));
});

test("a stream that is cut goes on where it was, with no gap and no repeat", async (t) => {
  const { http } = await serve(t, ["http"]);
  const proxy = await line(t, http.url);
  const client = await connectHttp(proxy.url, { token: TOKEN, reconnect });
  const session = await client.create();
  const events = session.events({ signal: deadline() });
  await events.ready;
  await session.start("/say a\n/sleep 50\n/repeat 300 b\n/sleep 50\n/say c");
  const items = [];
  for await (const item of events) {
    items.push(item);
    if (item.type === "llm_delta" && (item.text === "a" || items.length === 150)) proxy.cut();
    if (item.type === "status" && !item.busy) break;
  }
  contiguous(items);
  assert.equal(said(items), `a${"b".repeat(300)}c`);
  assert.ok(proxy.connections >= 3, `${proxy.connections} connections`);
});

test("a run is seen to its end through a cut line and a restart of the server", async (t) => {
  const where = await scratch();
  const first = await serve(t, ["http"], where);
  const proxy = await line(t, first.http.url);
  const client = await connectHttp(proxy.url, { token: TOKEN, reconnect });
  const session = await client.create();
  const run = session.run("/say a\n/sleep 200\n/say b", { signal: deadline() });
  const events = session.events({ signal: deadline() });
  await events.ready;
  for await (const item of run) if (item.type === "llm_delta") proxy.cut();
  assert.equal((await run.result).text, "ab");
  await first.stop();
  const second = await serve(t, ["http"], where);
  proxy.to = Number(new URL(second.http.url).port);
  const after = await (await client.resume(session.id)).prompt("after", { signal: deadline() });
  assert.equal(after.text, "after");
  const items = await until(events, (item) => item.type === "final" && item.run_id === after.run_id);
  assert.ok(types(items).includes("session_closed"));
  contiguous(items);
});

test("what is lost is told as an item, and the rest follows", async (t) => {
  const { http } = await serve(t, ["http"]);
  const proxy = await line(t, http.url);
  const client = await connectHttp(proxy.url, { token: TOKEN, reconnect });
  const session = await client.create();
  const { seq } = await session.view();
  const events = session.events({ after: seq + 1000, signal: deadline() });
  const { value: gap } = await events.next();
  assert.deepEqual([gap.type, gap.from, gap.to], ["replay_gap", seq + 1, seq + 1000]);
  assert.equal(typeof gap.epoch, "string");
  // The cursor is the session's own again: a cut now loses nothing.
  proxy.cut();
  const near = await connectHttp(http.url, { token: TOKEN });
  await near.session(session.id).start("hello");
  const items = await until(events, (item) => item.type === "final");
  contiguous(items, seq + 1);
});

test("permissions: answered by a helper, by hand, and by somebody else", async (t) => {
  const where = await scratch();
  const client = await connected(t, where);
  const session = await client.create();
  const asked = [];
  const allow = (request) => asked.push(request.tool) > 0;
  assert.equal((await session.prompt(write("a.txt", "x"), { onPermission: allow, signal: deadline() })).stopped_reason, "completed");
  assert.deepEqual(asked, ["write"]);
  assert.ok(existsSync(join(where.cwd, "a.txt")));

  const run = session.run(write("b.txt", "x"), { signal: deadline() });
  const outcomes = [];
  for await (const item of run) {
    if (item.type === "permission_request") {
      assert.equal((await session.permissions())[0].request_id, item.request_id);
      assert.equal((await client.permissions())[0].session, session.id);
      await session.deny(item.request_id, { reason: "not today" });
      await assert.rejects(session.allow(item.request_id), fails("not_found"));
    }
    if (item.type === "permission_resolved") outcomes.push([item.outcome, item.reason]);
  }
  assert.deepEqual(outcomes, [["denied", "not today"]]);
  assert.ok(!existsSync(join(where.cwd, "b.txt")));

  // Another client is faster than the helper: no error.
  const slow = async (request) => {
    await session.allow(request.request_id);
    return false;
  };
  await session.prompt(write("c.txt", "x"), { onPermission: slow, signal: deadline() });
  assert.ok(existsSync(join(where.cwd, "c.txt")));

  const broken = () => { throw new Error("no answer"); };
  await assert.rejects(session.prompt(write("d.txt", "x"), { onPermission: broken, signal: deadline() }), /no answer/);
  assert.equal((await session.view()).busy, false);
});

test("an always answer tells whether the rule was saved", async (t) => {
  const session = await (await connected(t)).create();
  for await (const item of session.run(write("a.txt", "x"), { signal: deadline() })) {
    if (item.type === "permission_request") {
      assert.deepEqual(await session.allow(item.request_id, { always: true }), { allowed: true, persisted: true });
    }
  }
  assert.equal((await session.prompt(write("a.txt", "y"), { signal: deadline() })).stopped_reason, "completed");
});

test("abort: the call rejects with the reason, and the run is cancelled", async (t) => {
  const session = await (await connected(t)).create();
  const controller = new AbortController();
  const run = session.run("/say a\n/sleep 60000", { signal: controller.signal });
  const reason = new Error("enough");
  await assert.rejects(async () => {
    for await (const item of run) if (item.type === "llm_delta") controller.abort(reason);
  }, reason);
  await assert.rejects(run.result, reason);
  assert.equal((await session.view()).busy, false);
  await assert.rejects(session.prompt("x", { signal: AbortSignal.abort(reason) }), reason);
  const events = session.events({ signal: controller.signal });
  await assert.rejects(events.next(), reason);
});

test("cancel: the run's outcome says aborted", async (t) => {
  const session = await (await connected(t)).create();
  const run = session.run("/say a\n/sleep 60000", { signal: deadline() });
  for await (const item of run) if (item.type === "llm_delta") assert.equal(await session.cancel(), true);
  assert.equal((await run.result).stopped_reason, "aborted");
  assert.equal(await session.cancel(), false);
});

test("leaving a stream closes it, also under a read that waits", async (t) => {
  const { http } = await serve(t, ["http"]);
  const client = await connectHttp(http.url, { token: http.token });
  const events = (await client.create()).events();
  await events.ready;
  const waiting = events.next();
  await events.return();
  assert.deepEqual(await waiting, { value: undefined, done: true });
});

test("the rest of a session: list, messages, patch, fork, undo, clear, tasks, unload", async (t) => {
  const client = await connected(t);
  assert.ok((await client.info()).agents.length > 0);
  const session = await client.create({ title: "kept" });
  await session.prompt("one");
  await session.prompt("two");
  const messages = await session.messages();
  assert.deepEqual(messages.map((one) => one.role), ["user", "assistant", "user", "assistant"]);
  assert.equal((await session.patch({ mode: "plan" })).mode, "plan");
  const { session: branch, prompt } = await session.fork(2);
  assert.equal(prompt, "two");
  assert.equal((await branch.messages()).length, 2);
  assert.equal((await session.undo()).prompt, "two");
  await session.clear();
  assert.deepEqual(await session.tasks(), []);
  await session.unload();
  assert.equal((await session.view()).loaded, false);
  const page = await client.list({ limit: 1 });
  assert.equal(page.sessions.length, 1);
  const rest = await client.list({ cursor: page.next });
  assert.deepEqual(new Set([...page.sessions, ...rest.sessions].map((one) => one.id)), new Set([session.id, branch.id]));
});
