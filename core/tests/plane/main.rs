//! The plane's public face on a real disk, with a small agent whose prompts say what it does. One module a topic; each test
//! names the clause that it holds the plane to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod events;
mod files;
mod history;
mod huge;
mod lifecycle;
mod lists;
mod permissions;
mod runs;
mod support;
mod tasks;
