//! triplane-common

pub mod rpc;
