//! The digest of a partition's events: equal digests mean equal events, in order.

use sha2::{Digest as _, Sha256};
use std::fmt::Write;

/// SHA-256 over lines, each ended by a line feed.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    state: Sha256,
}

impl Digest {
    /// Adds one line, given without its end.
    pub fn line(&mut self, line: &[u8]) {
        self.state.update(line);
        self.state.update(b"\n");
    }

    /// The digest of the lines so far, as 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.state.clone().finalize() {
            write!(text, "{byte:02x}").expect("a string takes all text");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_counts_with_its_end() {
        let mut digest = Digest::default();
        assert_eq!(
            digest.hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        digest.line(b"a");
        digest.line(b"b");
        assert_eq!(
            digest.hex(),
            "911169ddaaf146aff539f58c26c489af3b892dff0fe283c1c264c65ae5aa59a2"
        );
    }
}
