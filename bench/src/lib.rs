//! triplane-bench
