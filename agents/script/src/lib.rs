//! triplane-script
