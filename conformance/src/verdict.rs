//! What a case can end with. A case that returns early says why with a [`Stop`]; the runner makes a [`Verdict`] of it.
//! Invariant: `Broke` is said of the server alone; whatever fails on our side is `Harness`.

use std::fmt;

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The server did what the clause says.
    Held,
    /// The server broke a clause.
    Broke {
        /// The clause.
        clause: &'static str,
        /// What was sent and seen.
        seen: String,
    },
    /// The case does not apply here.
    Skipped(String),
    /// The runner failed; nothing is known about the server.
    Harness(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::Broke { clause, seen } => write!(f, "broke {clause}: {seen}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Harness(what) => write!(f, "harness failed: {what}"),
        }
    }
}

/// Why a case does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The server broke a clause; without one the case's first clause is meant.
    Broke {
        /// The clause.
        clause: Option<&'static str>,
        /// What was sent and seen.
        seen: String,
    },
    /// The case does not apply here.
    Skip(String),
    /// The runner failed.
    Harness(String),
}

/// The result of a case, and of each step of it.
pub type Outcome<T = ()> = Result<T, Stop>;

impl Stop {
    /// The server broke the case's first clause.
    pub fn broke(seen: impl Into<String>) -> Self {
        Self::Broke { clause: None, seen: seen.into() }
    }

    /// The runner failed.
    pub fn harness(what: impl fmt::Display) -> Self {
        Self::Harness(what.to_string())
    }

    /// The case does not apply here.
    pub fn skip(why: impl Into<String>) -> Self {
        Self::Skip(why.into())
    }
}

/// Names the clause that a failed step speaks of.
pub trait Blame<T> {
    /// Sets the clause of a `Broke` that names none yet.
    fn of(self, clause: &'static str) -> Outcome<T>;
}

impl<T> Blame<T> for Outcome<T> {
    fn of(self, clause: &'static str) -> Outcome<T> {
        self.map_err(|stop| match stop {
            Stop::Broke { clause: None, seen } => Stop::Broke { clause: Some(clause), seen },
            other @ (Stop::Broke { .. } | Stop::Skip(_) | Stop::Harness(_)) => other,
        })
    }
}

/// Cuts long text for a verdict, on a character boundary, and says how much is missing.
pub fn shorten(text: &str) -> String {
    const MOST: usize = 600;
    if text.len() <= MOST {
        return text.to_owned();
    }
    let cut = (0..=MOST).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}… ({} bytes in all)", text.get(..cut).unwrap_or_default(), text.len())
}

/// Ends the case with `Broke` unless the condition holds; the message says what was seen. A leading clause id names the clause.
#[macro_export]
macro_rules! expect {
    ($clause:literal : $cond:expr, $($seen:tt)+) => {
        if !$cond {
            return Err($crate::Stop::Broke { clause: Some($clause), seen: format!($($seen)+) });
        }
    };
    ($cond:expr, $($seen:tt)+) => {
        if !$cond {
            return Err($crate::Stop::broke(format!($($seen)+)));
        }
    };
}

/// Ends the case with `Broke` unless both are equal; the message says what the value is.
#[macro_export]
macro_rules! expect_eq {
    ($clause:literal : $got:expr, $want:expr, $($what:tt)+) => {
        $crate::verdict::same(&$got, &$want, || format!($($what)+)).map_err(|seen| $crate::Stop::Broke { clause: Some($clause), seen })?
    };
    ($got:expr, $want:expr, $($what:tt)+) => {
        $crate::verdict::same(&$got, &$want, || format!($($what)+)).map_err($crate::Stop::broke)?
    };
}

/// What [`expect_eq!`] stands on.
pub fn same<A, B>(got: &A, want: &B, what: impl FnOnce() -> String) -> Result<(), String>
where
    A: PartialEq<B> + fmt::Debug + ?Sized,
    B: fmt::Debug + ?Sized,
{
    if got == want {
        return Ok(());
    }
    Err(format!("{}: got {}, want {}", what(), shorten(&format!("{got:?}")), shorten(&format!("{want:?}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(value: u32) -> Outcome {
        expect!("X02": value != 2, "two: {value}");
        expect_eq!(value, 1, "the value");
        Ok(())
    }

    #[test]
    fn a_failed_expectation_names_its_clause_or_leaves_it_open() {
        assert_eq!(judge(1), Ok(()));
        assert_eq!(judge(2), Err(Stop::Broke { clause: Some("X02"), seen: "two: 2".into() }));
        assert_eq!(judge(3), Err(Stop::broke("the value: got 3, want 1")));
        assert_eq!(
            judge(3).of("X01"),
            Err(Stop::Broke { clause: Some("X01"), seen: "the value: got 3, want 1".into() })
        );
        assert_eq!(judge(2).of("X01"), judge(2));
    }

    #[test]
    fn long_text_is_cut_on_a_character_boundary() {
        let long = format!("a{}", "é".repeat(500));
        assert!(shorten(&long).ends_with("é… (1001 bytes in all)"));
    }
}
