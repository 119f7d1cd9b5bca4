//! One process with a few sessions on one node: each step befalls one of them, or all when the process dies.

use crate::{
    model::{Checked, Halt},
    node::Node,
    script::Step,
    seen::Seen,
    session::Session,
};
use std::{cell::RefCell, rc::Rc};

/// Sessions of the process.
pub(crate) const SESSIONS: usize = 2;

pub(crate) struct World {
    node: Rc<RefCell<Node>>,
    sessions: Vec<Session>,
}

impl World {
    pub(crate) fn new() -> Result<Self, String> {
        let node = Rc::new(RefCell::new(Node::new()));
        node.borrow_mut().watch();
        let sessions = (0..SESSIONS).map(|slot| Session::new(slot, node.clone()));
        let sessions = sessions.collect::<Result<_, _>>().map_err(wrong)?;
        Ok(Self { node, sessions })
    }

    /// One step of the script. Errors: what is not as it must be.
    pub(crate) fn apply(&mut self, slot: usize, step: Step) -> Checked {
        match step {
            Step::PowerCut { keep } => return self.crash(Some(keep), usize::from(keep) % 9),
            Step::Kill { lost } => return self.crash(None, usize::from(lost) % 9),
            Step::Watch => self.node.borrow_mut().watch(),
            Step::Unwatch(n) => self.node.borrow_mut().unwatch(n),
            Step::Peek { watcher, max } => self.node.borrow_mut().read(watcher, usize::from(max))?,
            step => match self.sessions[slot].apply(step) {
                Err(Halt::Died) => return self.crash(None, 2),
                Err(Halt::Wrong(why)) => return Err(why),
                Ok(()) => (),
            },
        }
        self.node.borrow().compare()
    }

    /// The process dies, with all of its sessions.
    fn crash(&mut self, keep: Option<u8>, lost: usize) -> Checked {
        self.node.borrow_mut().crash();
        self.sessions.iter_mut().try_for_each(|session| session.crash(keep, lost)).map_err(wrong)
    }

    /// The faults stop and everybody does his part; then the process ends in order, and nothing of it is left.
    pub(crate) fn finish(&mut self) -> Checked {
        self.sessions.iter_mut().try_for_each(Session::finish).map_err(wrong)?;
        self.node.borrow_mut().drain()?;
        if self.node.borrow().nobody_is_live() { Ok(()) } else { Err("somebody is live after the end".into()) }
    }

    pub(crate) fn seen(&self) -> Seen {
        let mut sum = Seen { lagged: self.node.borrow().lagged, ..Seen::default() };
        for session in &self.sessions {
            sum.add(&session.seen);
            sum.add_stream(&session.stream);
        }
        sum
    }
}

fn wrong(halt: Halt) -> String {
    match halt {
        Halt::Wrong(why) => why,
        Halt::Died => "the process dies where no fault was asked for".into(),
    }
}
