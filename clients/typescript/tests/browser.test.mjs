// The built files as they are, in a headless Chromium, over HTTP and WebSocket. Skipped where there is no Chromium.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "node:test";
import { line, scratch, serve } from "./support.mjs";

const CHROMIUM = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
  (path) => path && existsSync(path),
);
const skip = CHROMIUM ? false : "no Chromium here; install it, or name one in $CHROMIUM";
if (skip) console.log(`browser tests skipped: ${skip}`);

/** Runs in the page. */
const PAGE = `
import { TriplaneError, connectHttp, connectWs } from "/dist/index.js";
const { http, ws, token } = JSON.parse(document.getElementById("servers").textContent);
const tell = (path, what) => fetch(path, { method: "POST", body: JSON.stringify(what) });
try {
  const seen = {};
  const client = await connectHttp(http, { token, reconnect: { minMs: 10 } });
  const session = await client.create();
  const run = session.run("/say a\\n/sleep 100\\n/say b");
  const seqs = [];
  for await (const item of run) {
    seqs.push(item.seq);
    if (item.type === "llm_delta" && item.text === "a") await tell("/cut", {});
  }
  seen.http = (await run.result).text;
  seen.contiguous = seqs.every((seq, at) => seq === seqs[0] + at);
  seen.refused = await connectHttp(http, { token: "wrong" }).catch((error) => error.code);
  const tool = '/tool write {"path":"a.txt","content":"x"}';
  const asked = await session.prompt(tool, { onPermission: () => ({ allow: false, reason: "no" }) });
  seen.denied = asked.stopped_reason;
  const socket = await connectWs(ws, { token, reconnect: { minMs: 10 } });
  const chat = await socket.create();
  let deltas = "";
  for await (const event of chat.run("hello there")) if (event.type === "llm_delta") deltas += event.text;
  seen.ws = deltas;
  const controller = new AbortController();
  const long = chat.run("/say a\\n/sleep 60000", { signal: controller.signal });
  long.result.catch(() => {});
  try {
    for await (const event of long) if (event.type === "llm_delta") controller.abort();
  } catch (error) {
    seen.aborted = error.name;
  }
  seen.after = (await chat.prompt("after")).reply;
  await tell("/done", seen);
} catch (error) {
  await tell("/done", { error: String(error?.stack ?? error), code: error?.code });
}`;

/** Serves the page and the built files, and takes what the page tells. */
async function site(t, servers, cut) {
  let finish;
  const done = new Promise((resolve) => (finish = resolve));
  const answer = (response, type, body) => response.writeHead(200, { "content-type": type }).end(body);
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.url === "/cut") cut();
    if (request.url === "/done") finish(JSON.parse(body));
    if (request.url === "/") {
      const html = `<!doctype html><script id="servers" type="application/json">${JSON.stringify(servers)}</script><script type="module">${PAGE}</script>`;
      return answer(response, "text/html", html);
    }
    if (/^\/dist\/[\w/.-]+\.js$/.test(request.url) && !request.url.includes("..")) {
      return answer(response, "text/javascript", await readFile(fileURLToPath(new URL(`..${request.url}`, import.meta.url))));
    }
    answer(response, "text/plain", "");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}/`, done };
}

test("both wires in a browser, through a cut stream", { skip, timeout: 90_000 }, async (t) => {
  const server = await serve(t, ["http", "ws"], await scratch());
  const proxy = await line(t, server.http.url);
  const servers = { http: proxy.url, ws: server.ws.url, token: server.http.token };
  const { url, done } = await site(t, servers, () => proxy.cut());
  const profile = await mkdtemp(join(tmpdir(), "triplane-js-browser-"));
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", `--user-data-dir=${profile}`];
  const browser = spawn(CHROMIUM, [...flags, "--enable-logging=stderr", url], { stdio: ["ignore", "ignore", "pipe"], detached: true });
  let log = "";
  browser.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  t.after(async () => {
    const ended = new Promise((resolve) => browser.on("close", resolve));
    process.kill(-browser.pid, "SIGKILL");
    await ended;
    await rm(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  const late = new Promise((_, reject) => {
    AbortSignal.timeout(75_000).addEventListener("abort", () => reject(new Error(`the page said nothing\n${log.slice(-3000)}`)));
    browser.on("close", (code) => reject(new Error(`the browser ended with ${code}\n${log.slice(-3000)}`)));
  });
  late.catch(() => {});
  const seen = await Promise.race([done, late]);
  assert.deepEqual(seen, {
    http: "ab",
    contiguous: true,
    refused: "unauthorized",
    denied: "completed",
    ws: "hello there",
    aborted: "AbortError",
    after: "after",
  });
  assert.ok(proxy.connections >= 2);
});
