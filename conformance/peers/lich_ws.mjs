// Drives a lich server with npm `ws`, so that our own client library does not judge itself.
//
// usage: node lich_ws.mjs PORT TOKEN   (with `ws` installed where node looks for it)
//
// The server runs the scripted model. Prints `ok CLAUSES: what` for each check, and ends with 1 at the first that fails.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

// `import` does not look at NODE_PATH; `require` does.
const WebSocket = createRequire(import.meta.url)("ws");
const [port, token] = process.argv.slice(2);
const url = `ws://127.0.0.1:${port}/`;
const MIB = 1 << 20;
const DEADLINE = 10_000;

const within = (promise, what) => {
  let timer;
  const late = new Promise((_, no) => (timer = setTimeout(() => no(new Error(`no ${what} in time`)), DEADLINE)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

/** One socket; everything that comes is kept in order. */
class Client {
  constructor(ws) {
    Object.assign(this, { ws, last: 0, inbox: [], waiting: new Map() });
    this.closed = new Promise((yes) => ws.on("close", (code) => yes(code)));
    ws.on("error", () => {});
    ws.on("message", (data, binary) => {
      assert(!binary, "a binary frame");
      const frame = JSON.parse(data.toString());
      this.inbox.push(frame);
      this.waiting.get(frame.id)?.(frame);
    });
  }

  static open(options = {}) {
    const ws = new WebSocket(url, { headers: { "x-lich-token": token }, maxPayload: 0, ...options });
    const opened = new Promise((yes, no) => ws.once("open", yes).once("error", no));
    return within(opened, "upgrade").then(() => new Client(ws));
  }

  send(method, params = {}) {
    const id = ++this.last;
    const reply = new Promise((yes) => this.waiting.set(id, yes));
    this.ws.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return { id, reply: within(reply, `reply to ${method}`) };
  }

  async call(method, params) {
    const frame = await this.send(method, params).reply;
    assert("result" in frame, JSON.stringify(frame));
    return frame.result;
  }

  async create() {
    return (await this.call("session.create", { source: "node" })).session_id;
  }

  place(id) {
    return this.inbox.findIndex((frame) => frame.id === id);
  }
}

const status = (target, headers) =>
  new Promise((yes, no) => {
    const ws = new WebSocket(target, { headers });
    ws.on("unexpected-response", (_, response) => (response.resume(), yes(response.statusCode)));
    ws.on("open", () => (ws.close(), yes(101)));
    ws.on("error", no);
  });

const sized = (size) => {
  const [head, tail] = ['{"jsonrpc":"2.0","id":1,"method":"health","params":{"x":"', '"}}'];
  return head + "a".repeat(size - head.length - tail.length) + tail;
};

const checks = {
  "L22: the token in the query or a header, missing or wrong": async () => {
    assert.equal(await status(`${url}?token=${token}`, {}), 101);
    assert.equal(await status(url, { "x-lich-token": token }), 101);
    assert.equal(await status(url, {}), 401);
    assert.equal(await status(url, { "x-lich-token": "no" }), 401);
    assert.equal(await status(url, { Origin: "https://evil.example" }), 403);
  },
  "L03 L23: health, compression offered and not taken": async (c) => {
    assert.equal((await c.call("health")).status, "ok");
    assert.equal(c.ws.extensions, "");
  },
  "L14 L16 L17: events in order, all before the reply": async (c) => {
    const session_id = await c.create();
    const { id, reply } = c.send("prompt.submit", { session_id, text: "/repeat 500 x" });
    assert.equal((await reply).result.reply, "x".repeat(500));
    await c.call("health");
    const events = c.inbox.filter((frame) => frame.method === "event");
    assert.equal(events.filter((frame) => frame.params.event.type === "llm_delta").length, 500);
    assert.equal(events.at(-1).params.event.type, "final");
    assert(c.inbox.lastIndexOf(events.at(-1)) < c.place(id), "an event after the reply");
  },
  "L18 L19: submit, submit, clear, abort, submit without a pause": async (c) => {
    const session_id = await c.create();
    const sent = [
      c.send("prompt.submit", { session_id, text: "/sleep 60000" }),
      c.send("prompt.submit", { session_id, text: "/sleep 60000" }),
      c.send("session.clear", { session_id }),
      c.send("prompt.abort", { session_id }),
      c.send("prompt.submit", { session_id, text: "after" }),
    ];
    const [one, two, , abort, five] = await Promise.all(sent.map(({ reply }) => reply));
    for (const frame of [one, two]) {
      assert(["aborted", "cancelled"].includes(frame.result?.stopped_reason ?? frame.error.data.code));
    }
    assert.equal(abort.result.aborted, true);
    assert.equal(five.result.reply, "after");
    const places = [0, 1, 2, 4].map((at) => c.place(sent[at].id));
    assert.deepEqual(places, places.toSorted((a, b) => a - b));
  },
  "L07 L08 L09 L10: clear and resume": async (c) => {
    const session_id = await c.create();
    await c.call("prompt.submit", { session_id, text: "before" });
    await c.call("session.clear", { session_id });
    await c.call("prompt.submit", { session_id, text: "after" });
    const resumed = await c.call("session.resume", { id: session_id });
    assert.equal(resumed.resumed_id, session_id);
    assert.equal(resumed.message_count, 2);
    assert.notEqual(resumed.session_id, session_id);
  },
  "L01: a binary frame closes with 1003": async (c) => {
    c.ws.send(Buffer.from("{}"));
    assert.equal(await within(c.closed, "close"), 1003);
  },
  "L23: 1 MiB is taken": async (c) => {
    const reply = new Promise((yes) => c.waiting.set(1, yes));
    c.ws.send(sized(MIB));
    assert("result" in (await within(reply, "reply")));
  },
  "L23: a byte more is 1009": async (c) => {
    c.ws.send(sized(MIB + 1));
    assert.equal(await within(c.closed, "close"), 1009);
  },
  "L23: a byte more is 1009, in fragments too": async (c) => {
    const text = sized(MIB + 1);
    for (let at = 0; at < text.length; at += 65536) {
      c.ws.send(text.slice(at, at + 65536), { fin: at + 65536 >= text.length });
    }
    assert.equal(await within(c.closed, "close"), 1009);
  },
  "L14: a reply of 3 MB comes whole": async (c) => {
    const text = "é".repeat(300_000);
    const result = await c.call("prompt.submit", { session_id: await c.create(), text: `/repeat 5 ${text}` });
    assert(result.reply === text.repeat(5));
  },
};

console.log(`ws ${createRequire(import.meta.url)("ws/package.json").version}`);
for (const [name, check] of Object.entries(checks)) {
  const client = await Client.open();
  try {
    await check(client);
  } catch (wrong) {
    console.log(`broke ${name}: ${wrong}`);
    process.exit(1);
  }
  client.ws.terminate();
  console.log(`ok ${name}`);
}
process.exit(0);
