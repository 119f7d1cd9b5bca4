//! What the server says of itself. Clauses: H04, H05.

use super::Larik;
use crate::{metrics, views};
use triplane_protocol::{
    Failure,
    larik::{Document, Health, HealthStatus, Info, Metrics, OpenApi, ServerDetails},
    rest::{Handle, Input},
};

impl Handle<Health> for Larik {
    async fn handle(&self, _: Input<Health>) -> Result<HealthStatus, Failure> {
        Ok(HealthStatus { status: "ok".into(), version: self.info.version.clone() })
    }
}

impl Handle<Info> for Larik {
    async fn handle(&self, _: Input<Info>) -> Result<ServerDetails, Failure> {
        let info = &self.info;
        Ok(ServerDetails {
            version: info.version.clone(),
            cwd: self.plane.config().cwd.to_string_lossy().into_owned(),
            providers: info.providers.clone(),
            sandbox: info.sandbox.clone(),
            agents: self.plane.agents().into_iter().map(views::agent).collect(),
            node: info.node.clone(),
            transports: info.transports.clone(),
        })
    }
}

impl Handle<OpenApi> for Larik {
    async fn handle(&self, _: Input<OpenApi>) -> Result<Document, Failure> {
        Ok(Document(self.document()?))
    }
}

impl Handle<Metrics> for Larik {
    async fn handle(&self, _: Input<Metrics>) -> Result<String, Failure> {
        let streams = self.limits.streams.saturating_sub(self.streams.available_permits());
        Ok(metrics::text(&self.info.version, &self.plane.stats(), streams, &self.requests))
    }
}
