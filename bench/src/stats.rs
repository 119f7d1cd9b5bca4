//! Medians with their spread.

use serde::Serialize;

/// The middle of some samples, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the samples are below.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` without a sample. Samples that are no numbers do not count.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match (sorted.get(middle), sorted.get(middle.wrapping_sub(1))) {
            (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => (upper + lower) / 2.0,
            (Some(upper), _) => *upper,
            (None, _) => return None,
        };
        Some(Self { median, min: *sorted.first()?, max: *sorted.last()? })
    }

    /// The ratio of each pair, then their spread: what both saw of the machine's load cancels.
    pub fn of_ratios(pairs: &[(f64, f64)]) -> Option<Self> {
        let ratios: Vec<f64> = pairs.iter().map(|(ours, bare)| ours / bare).collect();
        Self::of(&ratios)
    }
}

/// The sample below which so many of a hundred lie. `None` without a sample.
pub fn percentile(samples: &[f64], of_hundred: usize) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * of_hundred / 100).min(sorted.len().checked_sub(1)?);
    sorted.get(at).copied()
}

/// What time it is, in nanoseconds since the epoch: one clock for all processes of a machine.
pub fn clock_ns() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos()
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} [{}..{}]", round(self.median), round(self.min), round(self.max))
    }
}

/// Three figures that mean something.
fn round(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_samples() {
        let median = |samples: &[f64]| Spread::of(samples).map(|spread| spread.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[f64::NAN]), None);
    }

    #[test]
    fn percentiles_of_a_hundred_and_of_none() {
        let samples: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!((percentile(&samples, 50), percentile(&samples, 99)), (Some(50.0), Some(99.0)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let spread = Spread::of_ratios(&[(2.0, 1.0), (20.0, 5.0), (3.0, 1.0)]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 2.0, max: 4.0 });
        assert_eq!(spread.to_string(), "3.00 [2.00..4.00]");
    }
}
