// Parts that need no server: the channel, the choice of an option, and what is committed.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { Channel, Missed, connectWs } from "../dist/index.js";
import { optionFor } from "../dist/permission.js";
import { stale } from "../scripts/generate.mjs";
import { until } from "./support.mjs";

test("the generated types are what the committed documents give", async () => {
  assert.deepEqual(await stale(), [], "run: npm run generate");
});

test("the lock file names no registry", async () => {
  const lock = JSON.parse(await readFile(new URL("../package-lock.json", import.meta.url), "utf8"));
  const packages = Object.entries(lock.packages).filter(([, one]) => "resolved" in one);
  assert.deepEqual(packages.map(([name]) => name), []);
});

test("a slow reader is told how many it missed, where they would have been", async () => {
  const channel = new Channel(4);
  for (let at = 1; at <= 20; at += 1) channel.push(at);
  channel.push(new Missed(5));
  channel.push(21);
  channel.end();
  const seen = await until(channel, () => false);
  let next = 1;
  let missed = 0;
  for (const item of seen) {
    if (item instanceof Missed) missed += item.count;
    else next = item;
  }
  assert.equal(next, 21);
  assert.ok(seen[0] instanceof Missed);
  assert.equal(missed + seen.filter((item) => !(item instanceof Missed)).length, 21 + 5);
});

test("a channel that ends with an error throws it once, after its items", async () => {
  const channel = new Channel();
  channel.push(1);
  channel.end(new Error("gone"));
  assert.deepEqual(await channel.next(), { value: 1, done: false });
  await assert.rejects(channel.next(), /gone/);
  assert.deepEqual(await channel.next(), { value: undefined, done: true });
});

test("always falls back to once, and never from no to yes", () => {
  const option = (kind) => ({ id: `id-${kind}`, name: kind, kind });
  const once = [option("allow_once"), option("reject_once")];
  assert.equal(optionFor([...once, option("allow_always")], { allow: true, always: true }), "id-allow_always");
  assert.equal(optionFor(once, { allow: true, always: true }), "id-allow_once");
  assert.equal(optionFor(once, false), "id-reject_once");
  assert.throws(() => optionFor([option("allow_always")], true), { code: "unsupported" });
});

test("events of two runs that come in one piece stay apart", async () => {
  const socket = {
    send(text) {
      const { id } = JSON.parse(text);
      if (id < 2) return;
      const say = (text) => ({ method: "event", params: { session_id: "s", event: { type: "llm_delta", text } } });
      const messages = [say("a"), { id: 1, result: { reply: "a" } }, say("b"), { id: 2, result: { reply: "b" } }];
      for (const one of messages) this.onmessage({ data: JSON.stringify({ jsonrpc: "2.0", ...one }) });
    },
    close() {},
  };
  const open = () => {
    setTimeout(() => socket.onopen());
    return socket;
  };
  const session = (await connectWs("ws://127.0.0.1", { token: "t", open })).session("s");
  const runs = [session.run("a"), session.run("b")];
  const told = await Promise.all(runs.map((run) => until(run, () => false)));
  assert.deepEqual(told.map((events) => events.map((event) => event.text)), [["a"], ["b"]]);
});
