//! A session's events. Clauses: H13, H15.

use super::Larik;
use crate::sse::{self, EventStream};
use triplane_protocol::{
    ErrorCode, Failure,
    larik::StreamEvents,
    rest::{Input, Open},
};

impl Open<StreamEvents> for Larik {
    async fn open(&self, input: Input<StreamEvents>) -> Result<EventStream, Failure> {
        let after = sse::cursor(&input.query, &input.headers)?;
        let full = |_| Failure::new(ErrorCode::Overloaded, "this server has all the event streams that it may have");
        let place = self.streams.clone().try_acquire_owned().map_err(full)?;
        let id = input.path.id;
        let mut log = self.plane.subscribe(&id).await?;
        if let Some(after) = after {
            log.seek(after);
        }
        Ok(EventStream::new(self.plane.clone(), id, log, &self.limits, self.ending.clone(), place))
    }
}
