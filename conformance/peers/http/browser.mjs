// A page on another loopback port, in a real browser: it asks the server across origins, and its EventSource comes back over a
// restart of the server by itself. Clauses: H28, H15, H02.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HOSTILE, Server, contiguous, same, until } from "./server.mjs";

const server = new Server();
await server.start();
const session = await server.session();

const page = `<!doctype html><title>reader</title><script type="module">
const told = (kind, body) => fetch("/told/" + kind, { method: "POST", body: JSON.stringify(body) });
const headers = { authorization: "Bearer ${server.token}", "content-type": "application/json" };
try {
  const answer = await fetch("${server.url}${session}", { method: "PATCH", headers, body: '{"title":"from a page"}' });
  await told("patched", await answer.json());
} catch (error) { await told("failed", String(error)); }
const source = new EventSource("${server.url}${session}/events?after=0&token=${server.token}");
source.onopen = () => told("open", {});
for (const type of ["status", "settings_changed", "user_message", "turn_start", "llm_start", "llm_delta", "llm_end", "usage", "final", "session_closed", "replay_gap"])
  source.addEventListener(type, ({ data, lastEventId }) => told("event", { ...JSON.parse(data), type, id: lastEventId }));
</script>`;

const told = { patched: [], failed: [], open: [], event: [] };
const pages = createServer(async (request, response) => {
  const kind = request.url.match(/^\/told\/(\w+)$/)?.[1];
  if (kind) {
    let text = "";
    for await (const piece of request) text += piece;
    told[kind].push(JSON.parse(text));
    return response.end();
  }
  response.setHeader("content-type", "text/html; charset=utf-8");
  response.end(page);
});
await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));

const profile = mkdtempSync(join(tmpdir(), "triplane-browser-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", `--user-data-dir=${profile}`];
const browser = spawn(process.env.CHROMIUM ?? "chromium", [...flags, `http://127.0.0.1:${pages.address().port}/`], { stdio: "ignore", detached: true });
process.on("exit", () => {
  try { process.kill(-browser.pid, "SIGKILL"); } catch { /* it is gone */ }
  rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});

// The page tells each event by itself, so they may come here in another order.
const events = () => [...new Map(told.event.map((event) => [event.seq, event])).values()].sort((a, b) => a.seq - b.seq);
const finals = () => events().filter((event) => event.type === "final");

await until("the page's stream", () => told.open.length > 0, 40);
same(told.failed, [], "requests of the page that failed");
same(told.patched[0].title, "from a page", "what a PATCH of the page answered");
await server.run(session, HOSTILE);
await until("the first run's end in the page", () => finals().length === 1);
same(events().find((event) => event.type === "user_message").text, HOSTILE, "the user message");

await server.stop();
await server.start();
await until("the page's stream, open again", () => told.open.length > 1, 30);
await server.run(session, "after the restart");
await until("the second run's end in the page", () => finals().length === 2);
same(told.event.length, events().length, "events, none of them twice");
contiguous(events());
await server.stop();
console.log(`   ${told.event.length} events in a page of another origin, over a restart`);
process.exit(0);
