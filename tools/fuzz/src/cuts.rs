//! Where a stream is cut: lengths drawn from a few bytes of the input, so that a finding is repeated
//! by its input alone.

/// Longest piece of each kind of piece: bytes one by one, parts of a line, several lines.
const LONGEST: [u64; 4] = [1, 5, 60, 2_000];

/// Lengths of pieces, one after the other.
pub(crate) struct Cuts(u64);

impl Cuts {
    /// The cuts of two bytes of the input.
    pub(crate) fn of(seed: [u8; 2]) -> Self {
        let seed = u64::from(u16::from_le_bytes(seed));
        // No state of this generator may be zero.
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    /// The length of the next piece of so many bytes; at least one.
    pub(crate) fn length(&mut self, rest: usize) -> usize {
        let kind = usize::try_from(self.below(4)).unwrap_or(0);
        let length = 1 + self.below(LONGEST[kind]);
        usize::try_from(length).map_or(rest, |length| length.min(rest))
    }
}
