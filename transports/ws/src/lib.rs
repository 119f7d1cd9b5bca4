//! triplane-ws
