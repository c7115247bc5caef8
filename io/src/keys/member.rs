//! Members of the price index.
//!
//! A member is `<16 digits>:<orderId>`: equal scores are ordered by their members' bytes, so the
//! digits put the older order first. Bids are read in descending order, so theirs count down. A
//! member from before this encoding has milliseconds for its digits, or no digits at all, and an
//! id may itself look like digits and a colon; a member alone cannot settle that, so reading one
//! gives every order it may mean and the record decides. Width, inversion and the direction of
//! reading belong together: changing one alone makes the book unfair without any error.

use super::Keys;
use conductor_engine::limits::{PRIORITY_DIGITS, PRIORITY_INVERSION};
use conductor_engine::{OrderId, Side};
use std::io::Write;

/// What a member of the price index may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Digits and the order behind them, if it can be read so.
    pub prefixed: Option<Prefixed>,
    /// The order of this very name, if it can be one.
    pub bare: Option<OrderId>,
}

/// A member with digits in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefixed {
    /// The digits, not inverted: a priority, or milliseconds where the record has no priority.
    pub digits: u64,
    /// The order.
    pub order: OrderId,
}

impl Keys {
    /// An order's member in the price index.
    pub fn member(side: Side, priority: u64, order: &OrderId) -> String {
        let mut out = Vec::with_capacity(PRIORITY_DIGITS + 1 + order.as_str().len());
        Self::write_member(side, priority, order, &mut out);
        String::from_utf8(out).expect("digits and an id are text")
    }

    /// Appends [`Keys::member`].
    ///
    /// # Panics
    /// When the priority is above 2^53 − 1, which timestamps below the year 2100 rule out.
    pub fn write_member(side: Side, priority: u64, order: &OrderId, out: &mut Vec<u8>) {
        let digits = invert(side, priority).expect("a priority is below 2^53");
        write!(out, "{digits:0width$}:{order}", width = PRIORITY_DIGITS)
            .expect("a vector takes all bytes");
    }

    /// Every order that a member may mean; with neither, it is no member of ours.
    pub fn parse_member(side: Side, member: &str) -> Member {
        Member {
            prefixed: prefixed(side, member),
            bare: OrderId::new(member).ok(),
        }
    }
}

fn prefixed(side: Side, member: &str) -> Option<Prefixed> {
    let (digits, order) = member.split_once(':')?;
    if digits.len() != PRIORITY_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(Prefixed {
        digits: invert(side, digits.parse().ok()?)?,
        order: OrderId::new(order).ok()?,
    })
}

/// Its own inverse. `None` where the digits could not come from a priority.
const fn invert(side: Side, digits: u64) -> Option<u64> {
    match (side, PRIORITY_INVERSION.checked_sub(digits)) {
        (_, None) => None,
        (Side::Ask, Some(_)) => Some(digits),
        (Side::Bid, Some(inverted)) => Some(inverted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> OrderId {
        OrderId::new(text).expect("an id")
    }

    #[test]
    fn bids_count_down_from_the_largest_exact_double() {
        let order = id("o-1");
        assert_eq!(
            Keys::member(Side::Ask, 1_767_225_600_000_000, &order),
            "1767225600000000:o-1"
        );
        assert_eq!(
            Keys::member(Side::Bid, 1_767_225_600_000_000, &order),
            "7239973654740991:o-1"
        );
        assert_eq!(Keys::member(Side::Ask, 5, &order), "0000000000000005:o-1");
    }

    #[test]
    fn older_orders_come_first_in_the_direction_of_reading() {
        let (older, newer) = (id("z"), id("a"));
        assert!(Keys::member(Side::Ask, 9, &older) < Keys::member(Side::Ask, 10, &newer));
        assert!(Keys::member(Side::Bid, 9, &older) > Keys::member(Side::Bid, 10, &newer));
    }

    #[test]
    fn reading_a_member_gives_every_order_that_it_may_mean() {
        for side in [Side::Ask, Side::Bid] {
            let text = Keys::member(side, 1_767_225_600_000_001, &id("a:b"));
            let member = Keys::parse_member(side, &text);
            let prefixed = Prefixed {
                digits: 1_767_225_600_000_001,
                order: id("a:b"),
            };
            assert_eq!(member.prefixed, Some(prefixed));
            assert_eq!(member.bare, Some(id(&text)), "an id may look like that");
        }
        let bare = Keys::parse_member(Side::Ask, "o-1");
        assert_eq!((bare.prefixed, bare.bare), (None, Some(id("o-1"))));
        for text in ["123:o-1", "+767225600000000:o-1", "o-1:1767225600000000"] {
            assert_eq!(Keys::parse_member(Side::Ask, text).prefixed, None, "{text}");
        }
        let above = Keys::parse_member(Side::Bid, "9999999999999999:o-1");
        assert_eq!(above.prefixed, None);
        let foreign = Keys::parse_member(Side::Ask, "no member");
        assert_eq!((foreign.prefixed, foreign.bare), (None, None));
        let long = format!("1767225600000000:{}", "x".repeat(128));
        let member = Keys::parse_member(Side::Ask, &long);
        assert!(member.prefixed.is_some() && member.bare.is_none());
    }
}
