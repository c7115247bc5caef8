//! What a command did to the fast book, so that it can be taken back in reverse.

use crate::units::{Quantity, QuoteAmount};

/// One change. What is needed to reverse it stands in the book, or in an [`Altered`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// An order was added in this slot.
    Inserted(u32),
    /// The order in this slot was taken out; its links still name its neighbours.
    Removed(u32),
    /// The order in this slot had other values before; they are the last [`Altered`].
    Altered(u32),
    /// The decimals of the pair at this place were fixed.
    FixedDecimals(u32),
}

/// What an order had before it was altered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Altered {
    pub(super) volume: Quantity,
    pub(super) remaining: Quantity,
    pub(super) quote_volume: QuoteAmount,
}
