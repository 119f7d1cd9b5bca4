// The WebSocket client against the real server.
import assert from "node:assert/strict";
import test from "node:test";
import { TriplaneError, connectWs } from "../dist/index.js";
import { TOKEN, deadline, line, said, scratch, serve, types } from "./support.mjs";

const reconnect = { minMs: 10, maxMs: 100 };
const fails = (...codes) => (error) => TriplaneError.is(error, ...codes);

async function connected(t, more = {}) {
  const { ws } = await serve(t, ["ws"]);
  const client = await connectWs(ws.url, { token: ws.token, reconnect, signal: deadline(), ...more });
  t.after(() => client.close());
  return client;
}

/** A client behind a line, and a wait for the line to be there again. */
async function cuttable(t, where) {
  const server = await serve(t, ["ws"], where);
  const proxy = await line(t, server.ws.url);
  const states = [];
  let told = () => {};
  const onConnection = (state) => told(states.push(state));
  const client = await connectWs(proxy.url, { token: TOKEN, reconnect, signal: deadline(), onConnection });
  t.after(() => client.close());
  const again = () => new Promise((resolve) => (told = (count) => states[count - 1] === "open" && resolve()));
  return { client, proxy, server, states, again };
}

test("a run: its events before its outcome", async (t) => {
  const client = await connected(t);
  assert.equal((await client.health()).status, "ok");
  const session = await client.create({ label: "one" });
  const run = session.run("hello there", { signal: deadline() });
  const events = [];
  for await (const event of run) events.push(event);
  const result = await run.result;
  assert.equal(result.reply, "hello there");
  assert.equal(result.stopped_reason, "completed");
  assert.equal(said(events), "hello there");
  assert.equal(types(events).at(0), "turn_start");
  assert.equal(types(events).at(-1), "final");
  assert.equal((await client.list())[0].id, session.id);
});

test("runs of one session keep their events apart, and sessions run side by side", async (t) => {
  const client = await connected(t);
  const [a, b] = [await client.create(), await client.create()];
  const runs = [a.run("/say a1\n/sleep 30"), a.run("/say a2"), b.run("/say b1")];
  const words = await Promise.all(runs.map(async (run) => {
    const events = [];
    for await (const event of run) events.push(event);
    return [said(events), (await run.result).reply];
  }));
  assert.deepEqual(words, [["a1", "a1"], ["a2", "a2"], ["b1", "b1"]]);
});

test("errors carry the server's code", async (t) => {
  const { ws } = await serve(t, ["ws"]);
  await assert.rejects(connectWs(ws.url, { token: "wrong" }), fails("unauthorized", "disconnected"));
  await assert.rejects(connectWs("ws://127.0.0.1:1", { token: "x" }), fails("disconnected"));
  const client = await connectWs(ws.url, { token: ws.token });
  t.after(() => client.close());
  await assert.rejects(client.session("01a22f1b-0000-7000-8000-000000000000").prompt("x"), fails("not_found"));
  await assert.rejects(client.call("session.create", {}), fails("invalid_params"));
  await assert.rejects(client.resume("nothing-like-it"), fails("not_found"));
});

test("abort: the call rejects with the reason, and the run is cancelled", async (t) => {
  const session = await (await connected(t)).create();
  const controller = new AbortController();
  const reason = new Error("enough");
  const run = session.run("/say a\n/sleep 60000", { signal: controller.signal });
  await assert.rejects(async () => {
    for await (const event of run) if (event.type === "llm_delta") controller.abort(reason);
  }, reason);
  await assert.rejects(run.result, reason);
  assert.equal((await session.prompt("next", { signal: deadline() })).reply, "next");
  const second = session.run("/say a\n/sleep 60000", { signal: deadline() });
  for await (const event of second) if (event.type === "llm_delta") assert.equal(await session.abort(), true);
  assert.equal((await second.result).stopped_reason, "aborted");
  assert.equal(await session.abort(), false);
});

test("a connection that is cut is made again, and sessions are still there", async (t) => {
  const { client, proxy, states } = await cuttable(t);
  const session = await client.create();
  const run = session.run("/say a\n/sleep 60000", { signal: deadline() });
  await assert.rejects(async () => {
    for await (const event of run) if (event.type === "llm_delta") proxy.cut();
  }, fails("disconnected"));
  await assert.rejects(run.result, fails("disconnected"));
  // The run went on without its socket; the same session is reached over the new one.
  assert.equal(await session.abort({ signal: deadline() }), true);
  assert.equal((await session.prompt("next", { signal: deadline() })).reply, "next");
  assert.deepEqual(states, ["open", "lost", "open"]);
});

test("a read is sent again when the connection is cut under it; calls wait while there is none", async (t) => {
  const where = await scratch();
  const { client, proxy, server, again } = await cuttable(t, where);
  const session = await client.create();
  await session.prompt("kept");
  const listed = client.list({ signal: deadline() });
  proxy.cut();
  assert.equal((await listed)[0].id, session.id);
  await server.stop();
  const back = again();
  const health = client.health({ signal: deadline() });
  const second = await serve(t, ["ws"], where);
  proxy.to = Number(new URL(second.ws.url).port);
  await back;
  assert.equal((await health).status, "ok");
  await assert.rejects(session.prompt("x"), fails("not_found"));
  const resumed = await client.resume();
  assert.equal(resumed.resumed_id, session.id);
  assert.equal(resumed.message_count, 2);
});

test("without reconnect a lost connection stays lost; back-off gives up when told to", async (t) => {
  for (const how of [false, { minMs: 1, attempts: 2 }]) {
    const { ws } = await serve(t, ["ws"]);
    const proxy = await line(t, ws.url);
    const client = await connectWs(proxy.url, { token: TOKEN, reconnect: how });
    proxy.to = 1;
    proxy.cut();
    await assert.rejects(client.health({ signal: deadline() }), fails("disconnected"));
    client.close();
    await assert.rejects(client.health(), fails("disconnected"));
  }
});
