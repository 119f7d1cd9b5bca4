//! Permissions: what a mode decides, what a rule decides, and what is asked.
