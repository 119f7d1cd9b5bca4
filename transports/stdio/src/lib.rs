//! triplane-stdio
