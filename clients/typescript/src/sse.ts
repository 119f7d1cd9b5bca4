/** A reader of event streams (the WHATWG rules): bytes in any cuts in, messages out. */

/** One message of a stream. */
export interface Message {
  /** `event:`, or `message`. */
  event: string;
  /** `data:` lines, joined. */
  data: string;
  /** `id:` of this message, if it has one of its own. */
  id: string | undefined;
}

export class StreamParser {
  /** The last `retry:`. */
  retryMs: number | undefined;
  #decoder = new TextDecoder(); // drops a byte order mark, and keeps a character that was cut
  #rest = "";
  #data: string[] = [];
  #event = "";
  #id: string | undefined;

  /** The messages that `bytes` complete. What is left over holds no line end, but for a CR that may be half of one. */
  *push(bytes: Uint8Array): Generator<Message> {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    let from = 0;
    for (let at = Math.max(0, this.#rest.length - 1); at < text.length; at += 1) {
      const char = text.charCodeAt(at);
      if (char !== 10 && char !== 13) continue;
      // A CR at the very end may be half of a CRLF.
      if (char === 13 && at + 1 === text.length) break;
      const message = this.#line(text.slice(from, at));
      if (char === 13 && text.charCodeAt(at + 1) === 10) at += 1;
      from = at + 1;
      if (message) yield message;
    }
    this.#rest = text.slice(from);
  }

  #line(line: string): Message | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    return undefined;
  }

  #dispatch(): Message | undefined {
    const message = { event: this.#event || "message", data: this.#data.join("\n"), id: this.#id };
    const empty = this.#data.length === 0;
    this.#data = [];
    this.#event = "";
    this.#id = undefined;
    return empty ? undefined : message;
  }
}
