//! How a turn can fail on demand: one row a failure, read by word or by HTTP status.

macro_rules! failures {
    ($( $(#[doc = $doc:literal])+ $name:ident = $word:literal, http $http:literal $(or $more:literal)*, retryable $retryable:literal; )+) => {
        /// What `/fail` can ask for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Failure { $( $(#[doc = $doc])+ $name ),+ }

        impl Failure {
            /// Every failure.
            pub const ALL: &[Self] = &[ $( Self::$name ),+ ];

            /// The word or one of the statuses; `None` for anything else.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|f| f.word() == text || f.statuses().iter().any(|s| s.to_string() == text))
            }

            /// The word in a script.
            pub const fn word(self) -> &'static str { match self { $( Self::$name => $word ),+ } }

            /// The status that an HTTP endpoint answers with; 200 for those that come after the reply has begun.
            pub const fn http(self) -> u16 { match self { $( Self::$name => $http ),+ } }

            /// Whether the same request may work later.
            pub const fn retryable(self) -> bool { match self { $( Self::$name => $retryable ),+ } }

            /// The statuses that name it in a script.
            const fn statuses(self) -> &'static [u16] {
                match self { $( Self::$name => if $http == 200 { &[] } else { &[$http $(, $more)*] } ),+ }
            }
        }
    };
}

failures! {
    /// The request cannot be done.
    Invalid = "invalid", http 400 or 404 or 422, retryable false;
    /// The key is missing or wrong.
    Unauthorized = "unauthorized", http 401, retryable false;
    /// The key may not do this.
    Forbidden = "forbidden", http 403, retryable false;
    /// The provider did not answer in time.
    Timeout = "timeout", http 408 or 504, retryable true;
    /// The request is over a limit.
    TooLarge = "too_large", http 413, retryable false;
    /// Too many requests.
    Overloaded = "overloaded", http 429 or 529, retryable true;
    /// A defect of the provider.
    Internal = "internal", http 500, retryable true;
    /// The provider is not there.
    Unavailable = "unavailable", http 503 or 502, retryable true;
    /// Not a failure: the turn stops because the model refused.
    Refused = "refused", http 200, retryable false;
    /// Not a failure: the turn stops because the model ran out of tokens.
    MaxTokens = "max_tokens", http 200, retryable false;
    /// The connection breaks in the middle of the reply.
    Broken = "broken", http 200, retryable true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_statuses_name_what_they_should() {
        for failure in Failure::ALL {
            assert_eq!(Failure::parse(failure.word()), Some(*failure));
        }
        for (status, word) in
            [("400", "invalid"), ("404", "invalid"), ("429", "overloaded"), ("502", "unavailable"), ("504", "timeout")]
        {
            assert_eq!(Failure::parse(status).map(Failure::word), Some(word), "{status}");
        }
        for bad in ["", "200", "99", "0429", "Refused", "refused "] {
            assert_eq!(Failure::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_status_names_one_failure_only() {
        let mut all: Vec<u16> = Failure::ALL.iter().flat_map(|f| f.statuses().iter().copied()).collect();
        all.sort_unstable();
        let before = all.len();
        all.dedup();
        assert_eq!(all.len(), before);
    }
}
