//! lich: JSON-RPC over WebSocket. Wire shapes meet plane calls here.
//!
//! Reading order:
//! - [`config`]: settings and bounds.
//! - [`server`]: accepts, and judges handshakes (`handshake`). [`socket`]: one WebSocket, one task. [`outbox`]: what waits for it.
//! - `connection`: one client's requests from text to reply. `handlers`: one a row. `submit`: a run's events and its result.

pub mod config;
mod connection;
mod handlers;
mod handshake;
pub mod outbox;
pub mod server;
pub mod socket;
mod submit;

pub use config::{WsConfig, WsLimits};

use connection::{Clients, Lich};
use serde::Serialize;
use server::Server;
use std::{io, net::SocketAddr, sync::Arc};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_common::{ready::ReadyLine, token::Token};
use triplane_core::{Plane, agent::NoAgent, plane::HoldPolicy};

/// The lich wire, bound and not yet accepting.
#[derive(Debug)]
pub struct Ws {
    server: Server,
    token: Token,
    lich: Arc<Lich>,
}

impl Ws {
    /// Binds, and registers with the plane. Errors: an address that is not loopback without `allow_remote`; a port that is taken.
    pub async fn bind(plane: Plane, config: WsConfig) -> io::Result<Self> {
        let WsConfig { host, port, guard, token, max_session_bags, limits } = config;
        let server = Server::bind(&host, port, guard, token.clone(), limits.clone()).await?;
        let policy = HoldPolicy { name: "ws", cap: Some(max_session_bags), answers: false, ..HoldPolicy::default() };
        let hold = plane.hold(policy);
        // Sessions without an agent can be asked for although there is one. Clause: L20.
        let none = plane.config().agent.as_deref() == Some(NoAgent::NAME);
        let prompts = !none && plane.agents().iter().any(|agent| agent.can.prompt);
        let lich = Arc::new(Lich { plane, hold, prompts, limits, tasks: TaskTracker::new() });
        Ok(Self { server, token, lich })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Writes the ready line and serves until `stop`; then calls in flight may end for [`WsLimits::drain`], and every socket is
    /// closed with 1001. Cancel `stop` when the plane begins to shut down, so that both waits run side by side. Clauses: C07, C09, L13.
    pub async fn serve(self, ready: ReadyLine, stop: CancellationToken) -> io::Result<()> {
        #[derive(Serialize)]
        struct Ready<'a> {
            port: u16,
            token: &'a str,
        }
        let Self { server, token, lich } = self;
        ready.announce(&Ready { port: server.address().port(), token: token.expose() })?;
        server.run(Clients(lich.clone()), stop).await;
        lich.tasks.close();
        if timeout(lich.limits.drain, lich.tasks.wait()).await.is_err() {
            tracing::warn!("{} calls were left behind", lich.tasks.len());
        }
        Ok(())
    }
}

/// [`Ws::bind`] and [`Ws::serve`] in one.
pub async fn serve(plane: Plane, config: WsConfig, ready: ReadyLine, stop: CancellationToken) -> io::Result<()> {
    Ws::bind(plane, config).await?.serve(ready, stop).await
}
