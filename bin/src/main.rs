//! The `triplane` command.
fn main() {}
