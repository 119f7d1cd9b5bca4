/**
 * Triplane's client: one function a wire, each in the words of its wire.
 *
 * - `connectHttp`: requests and event streams; for web pages and scripts. `connectWs`: one socket; for desktop apps.
 *   `spawnStdio`: a child process of one's own; for editors and orchestrators. `startServer` starts a server for the first two.
 * - Every call takes an `AbortSignal`, fails with a `TriplaneError` whose `code` says what can be done, and is typed by the
 *   committed documents of `protocol/schema`.
 */

export { type HttpOptions, type EventsOptions, type PromptOptions, type Abortable, connectHttp } from "./http.js";
export { HttpClient, HttpSession, EventStream, type Gap, type SessionEvent, type StreamItem } from "./http.js";
export { type AgentEvent, type Socket, type WsOptions, WsClient, WsSession, connectWs } from "./ws.js";
export { type NodeEvent, type StdioEvent, type StdioOptions, type StdioPermission, type StdioPromptOptions } from "./stdio.js";
export { PROTOCOL, StdioClient, StdioSession, spawnStdio } from "./stdio.js";
export { type ServeOptions, type Server, startServer } from "./server.js";
export type { ProcessOptions } from "./process.js";
export { type Backoff } from "./backoff.js";
export { Channel, Missed } from "./channel.js";
export { type ClientCode, type ErrorCode, TriplaneError } from "./errors.js";
export type { Decision } from "./permission.js";
export type { Run } from "./run.js";
export type { components as HttpTypes } from "./generated/larik.js";
export type { components as WsTypes } from "./generated/lich.js";
export type { components as StdioTypes } from "./generated/sepia.js";
