//! The one thread that starts children. It never ends: on Linux a parent-death signal fires when the *thread* that started the
//! child ends, and threads of the runtime come and go. Fault: CP-03.

use std::{
    io,
    process::{Child, Command},
    sync::OnceLock,
};
use tokio::sync::{mpsc, oneshot};

/// Commands that may wait for the thread; a start takes about a millisecond, and who comes later waits.
const QUEUE: usize = 64;

struct Request {
    command: Command,
    started: oneshot::Sender<io::Result<Child>>,
}

/// Starts `command`. Dropped before it resolves, a child that was started all the same is ended.
pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (started, child) = oneshot::channel();
    thread()?.send(Request { command, started }).await.map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn thread() -> io::Result<&'static mpsc::Sender<Request>> {
    static QUEUE_IN: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    if let Some(queue) = QUEUE_IN.get() {
        return Ok(queue);
    }
    let (queue, requests) = mpsc::channel(QUEUE);
    std::thread::Builder::new().name("triplane-spawn".to_owned()).spawn(move || serve(requests))?;
    // Lost a race: the other thread's queue stays, and this one's closes its thread before it started anything.
    Ok(QUEUE_IN.get_or_init(|| queue))
}

fn serve(mut requests: mpsc::Receiver<Request>) {
    while let Some(Request { mut command, started }) = requests.blocking_recv() {
        let child = command.spawn();
        // Our copies of the child's pipe ends go with the command; the reader would never see an end otherwise.
        drop(command);
        if let Err(Ok(mut orphan)) = started.send(child) {
            super::tree::signal_group(rustix::process::Pid::from_child(&orphan), rustix::process::Signal::KILL);
            let _ = orphan.kill();
            let _ = orphan.wait();
        }
    }
}
