//! What one comparison found: how much was equal, how much was not, and the first difference.

use super::Check;

/// Longest text of one side of a difference.
const SHOWN_BYTES_MAX: usize = 600;

/// One comparison under way.
#[derive(Debug, Default)]
pub(super) struct Findings {
    equal: u64,
    differing: u64,
    first: Option<String>,
}

impl Findings {
    /// One more thing was compared.
    pub(super) fn compare(&mut self, equal: bool, difference: impl FnOnce() -> String) {
        if equal {
            self.equal += 1;
        } else {
            self.differ(difference);
        }
    }

    /// One more thing differs.
    pub(super) fn differ(&mut self, difference: impl FnOnce() -> String) {
        self.differing += 1;
        if self.first.is_none() {
            self.first = Some(difference());
        }
    }

    /// Two texts were compared.
    pub(super) fn compare_bytes(
        &mut self,
        expected: &[u8],
        found: Option<&[u8]>,
        what: impl FnOnce() -> String,
    ) {
        self.compare(found == Some(expected), || {
            let found = found.map_or("nothing".to_owned(), shown);
            format!("{}: expected {}, found {found}", what(), shown(expected))
        });
    }

    /// What was found, in words: `12 of 12 things`.
    pub(super) fn check(self, things: &str) -> Check {
        let all = self.equal + self.differing;
        Check {
            holds: self.differing == 0,
            what: format!("{} of {all} {things}", self.equal),
            difference: self.first,
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= SHOWN_BYTES_MAX {
        return text.into_owned();
    }
    let start: String = text.chars().take(SHOWN_BYTES_MAX).collect();
    format!("{start}… ({} bytes)", bytes.len())
}
