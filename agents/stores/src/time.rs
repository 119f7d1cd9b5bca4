//! Milliseconds since the epoch, and the texts that agents write for them.

use jiff::Timestamp;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-30T10:00:00.000Z`.
pub(crate) fn iso(ms: i64) -> String {
    stamp(ms, "%Y-%m-%dT%H:%M:%S%.3fZ")
}

/// The time in UTC, by a pattern of strftime's.
pub(crate) fn stamp(ms: i64, pattern: &str) -> String {
    let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime(pattern).to_string()
}

/// The milliseconds of a text or of a number, which may count seconds.
pub(crate) fn ms(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond),
        // Seconds until the year 5138, milliseconds since 1973.
        Value::Number(number) => {
            let number = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64))?;
            Some(if number.abs() < 100_000_000_000 { number.saturating_mul(1000) } else { number })
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Now.
pub(crate) fn now() -> i64 {
    of(SystemTime::now())
}

/// A time of the file system.
pub(crate) fn of(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_and_numbers_name_the_same_moment() {
        assert_eq!(iso(1_796_000_000_123), "2026-11-30T00:53:20.123Z");
        for told in
            [json!("2026-11-30T00:53:20.123Z"), json!("2026-11-30T02:53:20.123+02:00"), json!(1_796_000_000_123_i64)]
        {
            assert_eq!(ms(&told), Some(1_796_000_000_123), "{told}");
        }
        assert_eq!(ms(&json!(1_796_000_000)), Some(1_796_000_000_000));
        assert_eq!(ms(&json!("yesterday")), None);
    }
}
