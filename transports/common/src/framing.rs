//! Which slot of an entry each transport keeps its encoded bytes in. Invariant: no two transports share a slot.

use triplane_core::feed::Framing;

/// A WebSocket text payload: lich's whole `event` notification.
pub const WS_TEXT: Framing = Framing::new(0);
/// A server-sent event, with its blank line.
pub const SSE: Framing = Framing::new(1);
/// One event of sepia as JSON text.
pub const NDJSON: Framing = Framing::new(2);
