//! Prices in ticks, volumes in lots, and decimals at the edge.
//!
//! Inside the engine every amount is an exact integer. A [`Decimal`] is a number as somebody wrote
//! it; it becomes a [`Price`] or a [`Quantity`] only when the order's own decimals can hold it
//! exactly, and is otherwise refused, never rounded.

use crate::command::Side;
use crate::limits::{AMOUNT_DECIMALS_MAX, PRICE_DECIMALS_MAX, PRICE_TICKS_END, VOLUME_LOTS_END};
use std::fmt;

/// A price in ticks: the pair's smallest price step. Above zero and below 10^15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

impl Price {
    /// `None` for zero and from 10^15 ticks on.
    pub const fn new(ticks: u64) -> Option<Self> {
        if ticks > 0 && ticks < PRICE_TICKS_END {
            Some(Self(ticks))
        } else {
            None
        }
    }

    /// The number of ticks.
    pub const fn ticks(self) -> u64 {
        self.0
    }
}

/// A volume in lots: the pair's smallest volume step. Below 10^18; zero only for what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(u64);

impl Quantity {
    /// Nothing left.
    pub const ZERO: Quantity = Quantity(0);

    /// `None` from 10^18 lots on.
    pub const fn new(lots: u64) -> Option<Self> {
        if lots < VOLUME_LOTS_END {
            Some(Self(lots))
        } else {
            None
        }
    }

    /// The number of lots.
    pub const fn lots(self) -> u64 {
        self.0
    }

    /// Whether nothing is left.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// What is left after a fill; `None` when the fill is larger.
    pub const fn minus(self, fill: Quantity) -> Option<Quantity> {
        match self.0.checked_sub(fill.0) {
            Some(lots) => Some(Quantity(lots)),
            None => None,
        }
    }
}

/// How many decimals a pair's prices, volumes and quote amounts have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairDecimals {
    /// Of a price: one tick is `10^-price`.
    pub price: u8,
    /// Of a volume: one lot is `10^-amount`.
    pub amount: u8,
    /// Of price times volume.
    pub quote: u8,
}

impl PairDecimals {
    /// Whether each lies in its range: prices 0 to 12, amounts and quotes 0 to 18.
    pub const fn in_range(self) -> bool {
        self.price <= PRICE_DECIMALS_MAX
            && self.amount <= AMOUNT_DECIMALS_MAX
            && self.quote <= AMOUNT_DECIMALS_MAX
    }

    /// Decimals with which quote amounts are kept: the product's own, or the pair's if fewer.
    pub const fn quote_scale(self) -> u8 {
        let product = self.price + self.amount;
        if product < self.quote {
            product
        } else {
            self.quote
        }
    }
}

/// A quote amount in steps of `10^-quote_scale` of its pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuoteAmount(pub u128);

/// `volume × price`, rounded to the pair's quote decimals in the maker's favour: up when the maker
/// is an ask, down when it is a bid.
pub fn quote_amount(
    volume: Quantity,
    price: Price,
    decimals: PairDecimals,
    maker: Side,
) -> QuoteAmount {
    let product = u128::from(volume.0) * u128::from(price.0);
    let excess = decimals.price + decimals.amount - decimals.quote_scale();
    let step = 10_u128.pow(u32::from(excess));
    QuoteAmount(match maker {
        Side::Ask => product.div_ceil(step),
        Side::Bid => product / step,
    })
}

/// A number as it was written: `(0|[1-9][0-9]*)(\.[0-9]+)?`, as many digits as there were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decimal {
    /// `mantissa × 10^-scale`.
    Exact {
        /// All digits, without the point.
        mantissa: u128,
        /// Digits behind the point, as written.
        scale: u32,
    },
    /// More digits than 128 bits hold; out of every range, kept for the record.
    Oversized(Box<str>),
}

/// Why a text is no number of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// It breaks the grammar.
    #[error("is not a plain decimal such as \"12.5\" (no sign, exponent, blank or underscore)")]
    Grammar,
    /// It is zero.
    #[error("must be above zero")]
    Zero,
}

/// Why a number does not fit an order's decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfitDecimal {
    /// It has more decimals than the order declares.
    Precision,
    /// It is too many ticks or lots.
    Range,
}

impl Decimal {
    /// Reads a number above zero.
    ///
    /// # Errors
    /// [`DecimalError`] when the text breaks the grammar or is zero.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let parsed = Self::parse_or_zero(text)?;
        if parsed.is_zero() {
            Err(DecimalError::Zero)
        } else {
            Ok(parsed)
        }
    }

    /// Reads a number that may be zero, such as what is left of an order.
    ///
    /// # Errors
    /// [`DecimalError::Grammar`] when the text breaks the grammar.
    pub fn parse_or_zero(text: &str) -> Result<Self, DecimalError> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(DecimalError::Grammar),
            Some((whole, fraction)) => (whole, fraction),
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || leading_zero || !digits(whole) || !digits(fraction) {
            return Err(DecimalError::Grammar);
        }
        let mantissa = whole
            .bytes()
            .chain(fraction.bytes())
            .try_fold(0_u128, |sum, byte| {
                sum.checked_mul(10)?.checked_add(u128::from(byte - b'0'))
            });
        Ok(match (mantissa, u32::try_from(fraction.len())) {
            (Some(mantissa), Ok(scale)) => Self::Exact { mantissa, scale },
            _ => Self::Oversized(text.into()),
        })
    }

    /// The number `units × 10^-scale`.
    pub const fn exact(units: u128, scale: u8) -> Self {
        Self::Exact {
            mantissa: units,
            scale: scale as u32,
        }
    }

    /// A price of a pair.
    pub fn of_price(price: Price, decimals: PairDecimals) -> Self {
        Self::exact(u128::from(price.0), decimals.price)
    }

    /// A volume of a pair.
    pub fn of_quantity(quantity: Quantity, decimals: PairDecimals) -> Self {
        Self::exact(u128::from(quantity.0), decimals.amount)
    }

    /// A quote amount of a pair.
    pub const fn of_quote(amount: QuoteAmount, decimals: PairDecimals) -> Self {
        Self::exact(amount.0, decimals.quote_scale())
    }

    /// Whether it is zero, however it was written.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Exact { mantissa, .. } => *mantissa == 0,
            Self::Oversized(_) => false,
        }
    }

    /// The number in steps of `10^-decimals`, exactly.
    ///
    /// # Errors
    /// [`UnfitDecimal`] when it was written with more decimals, or is at or above `end` steps.
    pub fn units(&self, decimals: u8, end: u64) -> Result<u64, UnfitDecimal> {
        let scale = self.scale();
        let Some(missing) = u32::from(decimals).checked_sub(scale) else {
            return Err(UnfitDecimal::Precision);
        };
        let Self::Exact { mantissa, .. } = self else {
            return Err(UnfitDecimal::Range);
        };
        let scaled = 10_u128
            .checked_pow(missing)
            .and_then(|step| mantissa.checked_mul(step));
        match scaled.and_then(|units| u64::try_from(units).ok()) {
            Some(units) if units < end => Ok(units),
            _ => Err(UnfitDecimal::Range),
        }
    }

    /// The number as a price.
    ///
    /// # Errors
    /// As [`Decimal::units`]; zero is out of range.
    pub fn price(&self, decimals: PairDecimals) -> Result<Price, UnfitDecimal> {
        let ticks = self.units(decimals.price, PRICE_TICKS_END)?;
        Price::new(ticks).ok_or(UnfitDecimal::Range)
    }

    /// The number as a volume; zero is one.
    ///
    /// # Errors
    /// As [`Decimal::units`].
    pub fn quantity(&self, decimals: PairDecimals) -> Result<Quantity, UnfitDecimal> {
        self.units(decimals.amount, VOLUME_LOTS_END).map(Quantity)
    }

    /// The number as a quote amount of a pair, which may exceed 64 bits.
    ///
    /// # Errors
    /// As [`Decimal::units`], with 128 bits as the range.
    pub fn quote(&self, decimals: PairDecimals) -> Result<QuoteAmount, UnfitDecimal> {
        let Self::Exact { mantissa, scale } = self else {
            return Err(UnfitDecimal::Range);
        };
        let Some(missing) = u32::from(decimals.quote_scale()).checked_sub(*scale) else {
            return Err(UnfitDecimal::Precision);
        };
        let scaled = 10_u128
            .checked_pow(missing)
            .and_then(|step| mantissa.checked_mul(step));
        scaled.map(QuoteAmount).ok_or(UnfitDecimal::Range)
    }

    fn scale(&self) -> u32 {
        match self {
            Self::Exact { scale, .. } => *scale,
            Self::Oversized(text) => {
                let digits = text
                    .split_once('.')
                    .map_or(0, |(_, fraction)| fraction.len());
                u32::try_from(digits).unwrap_or(u32::MAX)
            }
        }
    }
}

/// Without trailing zeros, and without a point when nothing is behind it.
impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact { mantissa, scale } => write_exact(*mantissa, *scale, out),
            Self::Oversized(text) if text.contains('.') => {
                out.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
            Self::Oversized(text) => out.write_str(text),
        }
    }
}

fn write_exact(mut mantissa: u128, mut scale: u32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if mantissa == 0 {
        return out.write_str("0");
    }
    while scale > 0 && mantissa.is_multiple_of(10) {
        mantissa /= 10;
        scale -= 1;
    }
    if scale == 0 {
        return write!(out, "{mantissa}");
    }
    match 10_u128.checked_pow(scale) {
        Some(step) => {
            let width = scale as usize;
            write!(out, "{}.{:0width$}", mantissa / step, mantissa % step)
        }
        // The number is below one, with more digits than 128 bits count.
        None => write!(out, "0.{mantissa:0width$}", width = scale as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECIMALS: PairDecimals = PairDecimals {
        price: 2,
        amount: 8,
        quote: 2,
    };

    #[test]
    fn the_grammar_takes_plain_decimals_only() {
        for text in [
            "1",
            "0.5",
            "10.25",
            "1.50",
            "1000000000000000000000000000000",
        ] {
            assert!(Decimal::parse(text).is_ok(), "{text}");
        }
        for text in [
            "", ".", "1.", ".5", "-1", "+1", "1e3", "1_000", " 1", "1 ", "NaN", "inf", "01", "0x1",
            "1.2.3", "１",
        ] {
            assert_eq!(Decimal::parse(text), Err(DecimalError::Grammar), "{text}");
        }
        for text in [
            "0",
            "0.0",
            "0.000000000000000000000000000000000000000000000000",
        ] {
            assert_eq!(Decimal::parse(text), Err(DecimalError::Zero), "{text}");
        }
    }

    #[test]
    fn display_has_no_trailing_zeros() {
        let shown = |text: &str| Decimal::parse(text).expect("a decimal").to_string();
        assert_eq!(shown("100"), "100");
        assert_eq!(shown("100.250"), "100.25");
        assert_eq!(shown("100.00"), "100");
        assert_eq!(shown("0.00000001"), "0.00000001");
        let many = format!("{}.50", "9".repeat(60));
        assert_eq!(shown(&many), format!("{}.5", "9".repeat(60)));
        let tiny = format!("0.{}1", "0".repeat(45));
        assert_eq!(shown(&tiny), tiny);
    }

    #[test]
    fn ranges_are_exact_at_both_sides() {
        let price = |text: &str| Decimal::parse(text).expect("a decimal").price(DECIMALS);
        assert_eq!(
            price("9999999999999.99").map(Price::ticks),
            Ok(PRICE_TICKS_END - 1)
        );
        assert_eq!(price("10000000000000"), Err(UnfitDecimal::Range));
        assert_eq!(price("1.001"), Err(UnfitDecimal::Precision));
        assert_eq!(
            price("1.000"),
            Err(UnfitDecimal::Precision),
            "decimals count as written"
        );
        assert_eq!(
            price(&format!("1{}", "0".repeat(60))),
            Err(UnfitDecimal::Range)
        );
        let volume = |text: &str| Decimal::parse(text).expect("a decimal").quantity(DECIMALS);
        assert_eq!(
            volume("9999999999.99999999").map(Quantity::lots),
            Ok(VOLUME_LOTS_END - 1)
        );
        assert_eq!(volume("10000000000"), Err(UnfitDecimal::Range));
    }

    #[test]
    fn quote_amounts_round_in_the_makers_favour() {
        let decimals = PairDecimals {
            price: 5,
            amount: 0,
            quote: 2,
        };
        let price = Price::new(111_548).expect("in range");
        let one = Quantity::new(1).expect("in range");
        assert_eq!(
            quote_amount(one, price, decimals, Side::Ask),
            QuoteAmount(112)
        );
        assert_eq!(
            quote_amount(one, price, decimals, Side::Bid),
            QuoteAmount(111)
        );
    }
}
