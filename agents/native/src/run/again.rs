//! When a model is asked again: after what the provider asks for, or a wait that doubles and is spread out.
//! Invariant: at most [`Retries::attempts`] times a turn; never when the provider wants more patience than [`PATIENCE`].

use crate::model::{ModelError, Retries};
use std::time::Duration;

/// The longest wait of our own choice.
const LONGEST: Duration = Duration::from_secs(30);
/// A provider that wants to be left alone for longer is not waited for: a person should know.
const PATIENCE: Duration = Duration::from_secs(120);

/// The attempts of one turn.
#[derive(Debug, Default)]
pub(super) struct Again {
    attempts: u32,
}

impl Again {
    /// How many there were, this one included.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long to wait before the next attempt; `None`: it is not made.
    pub(super) fn after(&mut self, error: &ModelError, retries: Retries) -> Option<Duration> {
        let told = error.retry_after.unwrap_or_default();
        self.attempts += 1;
        if !error.retryable || self.attempts > retries.attempts || told > PATIENCE {
            return None;
        }
        let doubled = retries.base.saturating_mul(1 << (self.attempts - 1).min(16)).min(LONGEST);
        Some(match error.retry_after {
            // Never earlier than asked for; spread over a base.
            Some(told) => told + retries.base.mul_f64(random()),
            None => doubled.mul_f64(0.5 + random() / 2.0),
        })
    }
}

/// From 0 to 1. No randomness costs only the spreading.
fn random() -> f64 {
    getrandom::u32().map_or(0.5, |n| f64::from(n) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use triplane_protocol::ErrorCode;

    fn error(retryable: bool, after_ms: Option<u64>) -> ModelError {
        let retry_after = after_ms.map(Duration::from_millis);
        ModelError { code: ErrorCode::Overloaded, message: "no".into(), retryable, retry_after }
    }

    #[test]
    fn waits_double_are_spread_and_end() {
        let retries = Retries { attempts: 3, base: Duration::from_millis(100) };
        let mut again = Again::default();
        for (low, high) in [(50, 100), (100, 200), (200, 400)] {
            let wait = again.after(&error(true, None), retries).unwrap().as_millis();
            assert!((low..=high).contains(&wait), "{wait}");
        }
        assert_eq!(again.after(&error(true, None), retries), None);
    }

    #[test]
    fn a_provider_is_obeyed_up_to_a_point() {
        let retries = Retries { attempts: 9, base: Duration::from_millis(10) };
        let mut again = Again::default();
        let wait = again.after(&error(true, Some(5_000)), retries).unwrap().as_millis();
        assert!((5_000..=5_010).contains(&wait), "{wait}");
        assert_eq!(again.after(&error(true, Some(600_000)), retries), None);
        assert_eq!(again.after(&error(false, None), retries), None);
    }
}
