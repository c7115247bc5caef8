//! What a command did to the fast book, so that it can be taken back in reverse.

use crate::units::{Quantity, QuoteAmount};

/// One change, with what is needed to reverse it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// An order was added in this slot.
    Inserted(u32),
    /// The order in this slot was taken out; its links still name its neighbours.
    Removed(u32),
    /// The order in this slot had these values before.
    Altered {
        slot: u32,
        volume: Quantity,
        remaining: Quantity,
        quote_volume: QuoteAmount,
    },
    /// The decimals of the pair at this place were fixed.
    FixedDecimals(u32),
}
