// Event streams as other people's parsers read them: npm's eventsource over a restart of the server, and eventsource-parser
// over the same bytes, cut at every place. Clauses: H13, H15, H16.
import { EventSource } from "eventsource";
import { createParser } from "eventsource-parser";
import { HOSTILE, Server, contiguous, same, until } from "./server.mjs";

const TYPES = ["status", "user_message", "turn_start", "llm_start", "llm_delta", "llm_end", "usage", "final", "session_closed", "replay_gap"];

const server = new Server();
await server.start();
const session = await server.session();

const seen = [];
const source = new EventSource(`${server.url}${session}/events?after=0`, {
  fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${server.token}` } }),
});
for (const type of TYPES) {
  source.addEventListener(type, ({ data, lastEventId }) => seen.push({ ...JSON.parse(data), type, id: lastEventId }));
}
const finals = () => seen.filter((event) => event.type === "final");

const answer = await server.run(session, HOSTILE);
await until("the first run's end", () => finals().length === 1);
same(seen.find((event) => event.type === "user_message").text, HOSTILE, "the user message");
const deltas = seen.filter((event) => event.type === "llm_delta").map((event) => event.text).join("");
same(deltas, answer.text, "the deltas, joined");

await server.stop();
await server.start();
await server.run(session, "after the restart");
await until("the second run's end, over a restart", () => finals().length === 2);
same(finals()[1].reply, "after the restart", "its reply");
contiguous(seen);
source.close();

// The same bytes, however they are cut.
const headers = { authorization: `Bearer ${server.token}` };
const stream = await fetch(`${server.url}${session}/events?after=0`, { headers });
const decoder = new TextDecoder();
let text = "";
for await (const piece of stream.body) {
  text += decoder.decode(piece, { stream: true });
  if (text.includes("after the restart") && text.includes('"stopped_reason"', text.lastIndexOf("event: final"))) break;
}
let first;
for (const step of [1, 2, 3, 7, 64, text.length]) {
  const events = [];
  const parser = createParser({
    onEvent: ({ id, event, data }) => events.push({ id, event, data: JSON.parse(data) }),
    onError: (error) => { throw error; },
  });
  for (let at = 0; at < text.length; at += step) parser.feed(text.slice(at, at + step));
  first ??= events;
  same(events, first, `the events, cut every ${step}`);
}
same(first.slice(0, seen.length).map(({ id }) => id), seen.map(({ id }) => id).slice(0, first.length), "ids, as both readers see them");
await server.stop();
console.log(`   ${seen.length} events read alike by eventsource and eventsource-parser, over a restart`);
process.exit(0);
