//! triplane-conformance
