//! Placeholder door, replaced as the crate is written.
