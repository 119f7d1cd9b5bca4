// The stream reader alone: the rules of event streams, at every place where bytes can be cut.
import assert from "node:assert/strict";
import test from "node:test";
import { StreamParser } from "../dist/sse.js";

const CASES = [
  ["a message", "id: 1\nevent: status\ndata: {}\n\n", [["status", "{}", "1"]]],
  ["no event name", "data: x\n\n", [["message", "x", undefined]]],
  ["comments and unknown fields", ": hi\nfoo: bar\ndata: x\n\n:\n\n", [["message", "x", undefined]]],
  ["lines of data", "data: a\ndata\ndata:b\n\n", [["message", "a\n\nb", undefined]]],
  ["one space goes", "data:  a\n\n", [["message", " a", undefined]]],
  ["CR LF and CR", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", [["message", "a", undefined], ["message", "b", undefined], ["message", "c", undefined]]],
  ["no data, no message", "event: x\nid: 3\n\ndata: y\n\n", [["message", "y", undefined]]],
  ["an unfinished message is dropped", "data: a\n\ndata: b\n", [["message", "a", undefined]]],
  ["a byte order mark", "\uFEFFdata: a\n\n", [["message", "a", undefined]]],
  ["characters of many bytes", "data: ä€😀\n\n", [["message", "ä€😀", undefined]]],
  ["an id with NUL is ignored", "id: 1\0\ndata: a\n\n", [["message", "a", undefined]]],
];

for (const [name, text, expected] of CASES) {
  test(`event stream: ${name}`, () => {
    const bytes = new TextEncoder().encode(text);
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      const parser = new StreamParser();
      const seen = [bytes.subarray(0, cut), bytes.subarray(cut)].flatMap((part) => [...parser.push(part)]);
      assert.deepEqual(seen.map((one) => [one.event, one.data, one.id]), expected, `cut at ${cut}`);
    }
    const parser = new StreamParser();
    const seen = [...bytes].flatMap((byte) => [...parser.push(Uint8Array.of(byte))]);
    assert.deepEqual(seen.map((one) => [one.event, one.data, one.id]), expected, "byte by byte");
  });
}

test("event stream: retry", () => {
  const parser = new StreamParser();
  assert.deepEqual([...parser.push(new TextEncoder().encode("retry: 1500\nretry: x\n\n"))], []);
  assert.equal(parser.retryMs, 1500);
});
