//! triplane-http
