//! One client: its requests from text to reply, and what they share.
//! Invariant: a request is begun in the order of arrival, before the next message is read; its task is tracked and outlives
//! the socket, so that a session that is being made is made whole. Clauses: C10, L18, L19.

use crate::{
    WsLimits,
    handlers::Request,
    outbox::Outbox,
    socket::{Front, Peer},
};
use futures_util::FutureExt;
use serde::Deserialize;
use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use triplane_common::rpc::{self, Answer, Call, Reply, SessionQueues, Wire};
use triplane_core::plane::{Hold, Plane};
use triplane_protocol::{ErrorCode, Failure, lich, table::Row};

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Lich {
    pub(crate) plane: Plane,
    pub(crate) hold: Hold,
    /// Whether some agent can run a prompt. Clause: L20.
    pub(crate) prompts: bool,
    pub(crate) limits: WsLimits,
    /// Calls in flight, of all clients.
    pub(crate) tasks: TaskTracker,
}

/// Opens a [`Connection`] for each socket.
#[derive(Debug)]
pub(crate) struct Clients(pub(crate) Arc<Lich>);

impl Front for Clients {
    type Peer = Connection;

    fn open(&self, outbox: Outbox) -> Connection {
        let queues = SessionQueues::new(self.0.limits.queued_requests);
        let client = Arc::new(Client {
            lich: self.0.clone(),
            outbox: outbox.clone(),
            queues: queues.clone(),
            gone: CancellationToken::new(),
            stopping: AtomicBool::new(false),
        });
        Connection { rpc: rpc::Peer::new(client.clone(), queues), calls: Calls::new(outbox), client }
    }
}

/// What the calls of one client see of it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) lich: Arc<Lich>,
    pub(crate) outbox: Outbox,
    pub(crate) queues: SessionQueues,
    /// Fires when its socket is over.
    pub(crate) gone: CancellationToken,
    stopping: AtomicBool,
}

impl Wire for Client {
    type Method = lich::Method;

    fn lookup(&self, name: &str) -> Option<(lich::Method, &'static Row)> {
        lich::lookup(name)
    }

    fn key(&self, _method: lich::Method, params: Option<&str>) -> Option<String> {
        #[derive(Deserialize)]
        struct Key<'a> {
            #[serde(borrow)]
            session_id: Cow<'a, str>,
        }
        // What cannot be read here is refused by the row's own params, and need not wait for that.
        serde_json::from_str(params?).ok().map(|Key { session_id }| session_id.into_owned())
    }

    fn lasts(&self, method: lich::Method) -> bool {
        method == lich::Method::PromptSubmit
    }

    fn arms(&self, method: lich::Method) -> bool {
        method == lich::Method::PromptSubmit
    }

    async fn call(self: Arc<Self>, method: lich::Method, call: Call) -> Result<Reply, Failure> {
        if self.stopping.load(Ordering::Acquire) && !matches!(method, lich::Method::Health | lich::Method::PromptAbort)
        {
            return Err(Failure::new(ErrorCode::Closing, "the server is shutting down"));
        }
        let request = Request { client: self, armed: call.armed };
        lich::dispatch(&request, method, call.params.as_deref()).await.map(Reply::from)
    }
}

/// One client's side of the dispatcher.
#[derive(Debug)]
pub(crate) struct Connection {
    rpc: rpc::Peer<Client>,
    client: Arc<Client>,
    calls: Calls,
}

impl Peer for Connection {
    fn text(&mut self, text: Utf8Bytes) {
        let Some(work) = self.rpc.take(&text) else { return };
        let limits = &self.client.lich.limits;
        if work.lasts() && self.calls.lasting() >= limits.queued_requests {
            let message = format!("{} requests of this connection are waiting already", limits.queued_requests);
            hand_in(&self.client.outbox, work.refuse(&Failure::new(ErrorCode::Overloaded, message)));
            return;
        }
        let ticket = self.calls.enter(work.lasts());
        let mut running = Box::pin(work.run());
        // Most calls end without waiting for anything; they need no task.
        if let Some(answer) = (&mut running).now_or_never() {
            return hand_in(&self.client.outbox, answer);
        }
        let outbox = self.client.outbox.clone();
        self.client.lich.tasks.spawn(async move {
            hand_in(&outbox, running.await);
            drop(ticket);
        });
    }

    fn takes_more(&self) -> bool {
        self.calls.open() < self.client.lich.limits.open_requests
    }

    fn busy(&self) -> bool {
        self.calls.open() + self.calls.lasting() > 0
    }

    fn stopping(&mut self) {
        self.client.stopping.store(true, Ordering::Release);
    }

    fn gone(&mut self) {
        self.client.gone.cancel();
    }
}

fn hand_in(outbox: &Outbox, mut answer: Answer) {
    if let Some(bytes) = answer.bytes.take() {
        outbox.reply(bytes);
    }
    answer.sent();
}

/// Counts the calls of one connection that are in flight.
#[derive(Debug)]
struct Calls(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    /// Those that end without the client's doing.
    open: AtomicUsize,
    /// Those that may last until it says something more.
    lasting: AtomicUsize,
    outbox: Outbox,
}

/// One call in flight; dropped, the socket looks around again.
struct Ticket {
    counts: Arc<Counts>,
    lasts: bool,
}

impl Calls {
    fn new(outbox: Outbox) -> Self {
        Self(Arc::new(Counts { open: AtomicUsize::new(0), lasting: AtomicUsize::new(0), outbox }))
    }

    fn enter(&self, lasts: bool) -> Ticket {
        self.0.of(lasts).fetch_add(1, Ordering::AcqRel);
        Ticket { counts: self.0.clone(), lasts }
    }

    fn open(&self) -> usize {
        self.0.open.load(Ordering::Acquire)
    }

    fn lasting(&self) -> usize {
        self.0.lasting.load(Ordering::Acquire)
    }
}

impl Counts {
    fn of(&self, lasts: bool) -> &AtomicUsize {
        if lasts { &self.lasting } else { &self.open }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.counts.of(self.lasts).fetch_sub(1, Ordering::AcqRel);
        self.counts.outbox.wake();
    }
}
