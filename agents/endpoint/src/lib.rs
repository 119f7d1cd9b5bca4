//! The scripted model behind the HTTP dialects of real providers, on loopback: a provider path, or somebody else's agent, is
//! driven with no key and no network.
//! Invariants: only 127.0.0.1 is bound; a reply depends on the request alone, but for ids (counters) and `/fail CODE TIMES`,
//! which counts; no header of a request is kept.
//!
//! | dialect | path |
//! |---|---|
//! | OpenAI chat completions | `POST /v1/chat/completions` |
//! | OpenAI responses | `POST /v1/responses` |
//! | Anthropic messages | `POST /v1/messages`, `/v1/messages/count_tokens` |
//! | Gemini | `POST /v1beta/models/NAME:generateContent`, `:streamGenerateContent`, `:countTokens` |
//! | Ollama | `POST /api/chat`, `/api/show`, `GET /api/tags`, `/api/version` |
//! | model lists | `GET /v1/models`, `/v1beta/models` |
//! | what was asked, and how it ended | `GET /requests` |
//!
//! The last text of the last user message is the script, without what agents wrap round it; see [`triplane_script`].
//!
//! Reading order:
//! - [`asked`]: a request in no dialect. [`dialect`]: each dialect's reading and writing.
//! - [`answer`]: a script carried out into a dialect. [`record`]: what was asked, and how it ended.
//! - [`server`]: the listener.

mod answer;
mod asked;
mod dialect;
mod record;
mod server;

pub use record::{Ending, Record, Request};
pub use server::{Endpoint, Running};
