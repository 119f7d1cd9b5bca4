//! The plane's public face on a real disk, with a small agent whose prompts say what it does. One module a topic; each test
//! names the clause that it holds the plane to.

mod events;
mod files;
mod history;
mod lifecycle;
mod permissions;
mod runs;
mod support;
mod tasks;
