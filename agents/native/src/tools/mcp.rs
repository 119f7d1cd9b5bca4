//! Tools that MCP servers offer. Each call asks as a command does, unless this machine's owner said that the tool only looks.
//! Invariant: for a call by name the server is not even started before the call is allowed.

use super::{Desk, Outcome, Prepared, Tool, set::Extension, text::title};
use crate::{
    mcp::{Caller, McpHub, McpTool, server_of},
    model::ToolSpec,
};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use triplane_core::session::ToolKind;
use triplane_protocol::{AgentEvent, CallId};

/// All of them.
pub(super) struct McpTools(pub(super) Arc<McpHub>);

/// One of them.
struct One {
    hub: Arc<McpHub>,
    spec: ToolSpec,
}

#[async_trait]
impl Extension for McpTools {
    /// Of the servers that the session's directory has. What is to be told of the others is told once in a run.
    async fn tools(&self, desk: &Desk) -> Vec<Arc<dyn Tool>> {
        let listed = self.0.tools(&desk.cwd).await;
        for data in listed.news {
            if desk.tools.is_news(&data.to_string()) {
                desk.host.emit(AgentEvent::Extension { name: "mcp_server".to_owned(), data }).await;
            }
        }
        let one = |tool: McpTool| {
            let McpTool { name, description, schema, .. } = tool;
            let spec = ToolSpec { name: name.into(), description: description.into(), schema };
            Arc::new(One { hub: Arc::clone(&self.0), spec }) as Arc<dyn Tool>
        };
        listed.tools.into_iter().map(one).collect()
    }

    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        server_of(name)?;
        let spec = ToolSpec { name: name.to_owned().into(), description: "".into(), schema: json!({}) };
        Some(Arc::new(One { hub: Arc::clone(&self.0), spec }))
    }
}

#[async_trait]
impl Tool for One {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// What a rule's pattern is matched against is the input as compact JSON.
    async fn prepare(&self, desk: &Desk, call: &CallId, input: &Value) -> Result<Prepared, String> {
        let name = self.spec.name.to_string();
        let input: Map<String, Value> = match input {
            Value::Object(input) => input.clone(),
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(format!(
                    "the input of `{name}` is not a JSON object; call again with one that fits its schema"
                ));
            }
        };
        let kind = if self.hub.only_looks(&name) { ToolKind::Read } else { ToolKind::Execute };
        let subject = Value::Object(input.clone()).to_string();
        let caller = Caller { host: Arc::clone(&desk.host), call: call.clone(), cancel: desk.cancel.clone() };
        let (hub, cwd) = (Arc::clone(&self.hub), desk.cwd.clone());
        Ok(Prepared {
            kind,
            title: title(&name, &subject),
            subject,
            outside: false,
            changes: None,
            hold: None,
            work: Box::pin(async move {
                let answer = hub.call(&cwd, &name, input, caller).await;
                Outcome { error: answer.error, images: answer.images, ..Outcome::ok(answer.text) }
            }),
        })
    }
}
