//! What was measured, what was aimed at, and whether it holds.

use crate::stats::Spread;
use serde::Serialize;
use std::fmt::Write;

/// By how much a time may miss its target on a machine that others use too. Sizes get no slack: they do not depend on load.
const SLACK: f64 = 1.3;

/// What a figure is held to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The median of ours / bare, at most; a gate allows 30 % more.
    Ratio(f64),
    /// The median of ours, at most, in the figure's unit; a gate allows nothing more.
    Size(f64),
    /// Told, not judged.
    Information,
}

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Unit of `ours` and `bare`.
    pub unit: &'static str,
    /// The plane.
    pub ours: Spread,
    /// The ceiling, where there is one.
    pub bare: Option<Spread>,
    /// Of each pair.
    pub ratio: Option<Spread>,
    /// What it is held to.
    pub target: Target,
}

impl Figure {
    /// A figure of pairs (ours, bare). `None` without a sample.
    pub fn of_pairs(name: impl Into<String>, unit: &'static str, pairs: &[(f64, f64)], target: Target) -> Option<Self> {
        let (ours, bare): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Some(Self {
            name: name.into(),
            unit,
            ours: Spread::of(&ours)?,
            bare: Spread::of(&bare),
            ratio: Spread::of_ratios(pairs),
            target,
        })
    }

    /// A figure that only ours has.
    pub fn of_ours(name: impl Into<String>, unit: &'static str, samples: &[f64], target: Target) -> Option<Self> {
        Some(Self { name: name.into(), unit, ours: Spread::of(samples)?, bare: None, ratio: None, target })
    }

    /// What is wrong with it, if it misses its target by more than the gate allows.
    pub fn miss(&self) -> Option<String> {
        let (value, limit) = match self.target {
            Target::Ratio(target) => (self.ratio?.median, target * SLACK),
            Target::Size(target) => (self.ours.median, target),
            Target::Information => return None,
        };
        (value > limit).then(|| format!("{}: {value:.2} is over the gate's {limit:.2}", self.name))
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::Ratio(target) => format!("ratio <= {target}"),
            Target::Size(target) => format!("ours <= {target}"),
            Target::Information => "-".to_owned(),
        }
    }
}

/// All figures of one call.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Load average of the last minute, before and after.
    pub load: [String; 2],
    /// Interleaved pairs a figure.
    pub pairs: usize,
    /// What was measured.
    pub figures: Vec<Figure>,
}

impl Report {
    /// As a Markdown table.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // A String takes every write.
        let _ = writeln!(
            text,
            "load {} -> {}, {} interleaved pairs, median [min..max]\n",
            self.load[0], self.load[1], self.pairs
        );
        text.push_str("| figure | ours / bare | target | ours | bare | unit |\n|---|---|---|---|---|---|\n");
        for figure in &self.figures {
            let show = |spread: &Option<Spread>| spread.map_or_else(|| "-".to_owned(), |spread| spread.to_string());
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                figure.name,
                show(&figure.ratio),
                figure.target_text(),
                figure.ours,
                show(&figure.bare),
                figure.unit
            );
        }
        text
    }

    /// Every figure that a gate refuses.
    pub fn misses(&self) -> Vec<String> {
        self.figures.iter().filter_map(Figure::miss).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ours: f64, target: Target) -> Figure {
        Figure::of_pairs("f", "ms", &[(ours, 1.0), (ours, 1.0)], target).unwrap()
    }

    #[test]
    fn ratios_have_slack_and_sizes_have_none() {
        assert_eq!(figure(2.5, Target::Ratio(2.0)).miss(), None);
        assert!(figure(2.7, Target::Ratio(2.0)).miss().is_some());
        assert_eq!(figure(2.0, Target::Size(2.0)).miss(), None);
        assert!(figure(2.1, Target::Size(2.0)).miss().is_some());
        assert_eq!(figure(99.0, Target::Information).miss(), None);
    }
}
