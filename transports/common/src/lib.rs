//! triplane-common
