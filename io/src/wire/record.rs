//! Reading back what the store holds: an order's record, a pair's decimals, the cursor.
//!
//! What was written by us reads back exactly. A record from before our fields may lack its
//! priority, its remainder (its volume is then what is left), its quote volume, its role and its
//! user; numbers may carry trailing zeros. Anything else that cannot be read is an error that
//! names the field, never a guess: a wrong book is worse than none.

use crate::keys::field;
use crate::resp::Reply;
use conductor_engine::book::RestingOrder;
use conductor_engine::limits::{PRIORITY_INVERSION, TIMESTAMP_END};
use conductor_engine::staging::Cursor;
use conductor_engine::units::{QuoteAmount, UnfitDecimal};
use conductor_engine::{
    CommandId, Decimal, OrderId, PairDecimals, PairId, Price, Quantity, Side, Timestamp, UserId,
};
use std::str::FromStr;

/// Why something in the store cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The reply is no list of fields and values.
    #[error("the reply is no hash; look at the key's type")]
    Shape,
    /// A field that must be there is not.
    #[error("the field {0} is missing; restore it")]
    Missing(&'static str),
    /// A field cannot be read.
    #[error("the field {field} {problem}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// An order's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The order.
    pub id: OrderId,
    /// Whose it is; `None` for the house.
    pub user: Option<UserId>,
    /// Its pair.
    pub pair: PairId,
    /// Its side.
    pub side: Side,
    /// Its price.
    pub price: Price,
    /// What it was placed with, or last amended to.
    pub volume: Quantity,
    /// What it has left.
    pub remaining: Quantity,
    /// Quote volume that it has traded.
    pub quote_volume: QuoteAmount,
    /// The decimals it was written for.
    pub decimals: PairDecimals,
    /// The producer's time.
    pub timestamp: Timestamp,
    /// Its place in time; `None` in a record from before priorities were kept.
    pub priority: Option<u64>,
}

impl StoredRecord {
    /// The order as it rests, at the place that was found for it.
    pub fn resting(self, priority: u64) -> RestingOrder {
        RestingOrder {
            id: self.id,
            user: self.user,
            pair: self.pair,
            side: self.side,
            price: self.price,
            volume: self.volume,
            remaining: self.remaining,
            quote_volume: self.quote_volume,
            priority,
            timestamp: self.timestamp,
        }
    }
}

/// Reads the reply of `HGETALL` of an order; `None` where there is no record.
///
/// # Errors
/// [`RecordError`] names what cannot be read.
pub fn read_record(reply: &Reply) -> Result<Option<StoredRecord>, RecordError> {
    let Some(hash) = Hash::of(reply)? else {
        return Ok(None);
    };
    if hash.find(field::TYPE).is_some_and(|kind| kind != "limit") {
        return Err(fault(field::TYPE, "is not limit; nothing else rests"));
    }
    let decimals = hash.decimals()?;
    let amount = |name| {
        let text = hash.find(name);
        text.map(|text| quantity(name, text, decimals)).transpose()
    };
    let volume = amount(field::VOLUME)?.ok_or(RecordError::Missing(field::VOLUME))?;
    let price = hash.need(field::PRICE)?;
    let price = decimal(field::PRICE, price)?.price(decimals);
    let quote_volume = match hash.find(field::QUOTE_VOLUME) {
        Some(text) => decimal(field::QUOTE_VOLUME, text)?
            .quote(decimals)
            .map_err(|why| unfit(field::QUOTE_VOLUME, why))?,
        None => QuoteAmount::default(),
    };
    Ok(Some(StoredRecord {
        id: identifier(field::ID, hash.need(field::ID)?, OrderId::new)?,
        user: hash.user()?,
        pair: PairId(hash.number(field::PAIR_ID)?),
        side: hash.side()?,
        price: price.map_err(|why| unfit(field::PRICE, why))?,
        volume,
        remaining: amount(field::REMAINING)?.unwrap_or(volume),
        quote_volume,
        decimals,
        timestamp: Timestamp::new(hash.number(field::TIMESTAMP)?)
            .ok_or_else(|| fault(field::TIMESTAMP, &format!("is not below {TIMESTAMP_END}")))?,
        priority: hash.priority()?,
    }))
}

/// Reads the reply of `HGETALL` of a pair; `None` where its decimals were never fixed.
///
/// # Errors
/// [`RecordError`] names what cannot be read.
pub fn read_pair(reply: &Reply) -> Result<Option<PairDecimals>, RecordError> {
    Hash::of(reply)?.map(|hash| hash.decimals()).transpose()
}

/// Reads the reply of `HGETALL` of the cursor; before the first group there is none.
///
/// # Errors
/// [`RecordError`] names what cannot be read.
pub fn read_cursor(reply: &Reply) -> Result<Option<Cursor>, RecordError> {
    let Some(hash) = Hash::of(reply)? else {
        return Ok(None);
    };
    let command = hash.find(field::COMMAND_ID);
    Ok(Some(Cursor {
        sequence: hash.number(field::SEQUENCE)?,
        priority: hash
            .priority()?
            .ok_or(RecordError::Missing(field::PRIORITY))?,
        command: command
            .map(|text| identifier(field::COMMAND_ID, text, CommandId::new))
            .transpose()?,
    }))
}

/// Fields and values of one hash.
struct Hash<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Hash<'a> {
    /// `None` for an empty hash, which is one that does not exist.
    fn of(reply: &'a Reply) -> Result<Option<Self>, RecordError> {
        let elements = reply.elements().ok_or(RecordError::Shape)?;
        let (pairs, rest) = elements.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(RecordError::Shape);
        }
        let text = |part: &'a Reply| part.text().ok_or(RecordError::Shape);
        let fields: Result<Vec<_>, _> = pairs
            .iter()
            .map(|[name, value]| Ok((text(name)?, text(value)?)))
            .collect();
        Ok(Some(Self(fields?)).filter(|hash| !hash.0.is_empty()))
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(each, _)| *each == name);
        found.map(|(_, value)| *value)
    }

    fn need(&self, name: &'static str) -> Result<&'a str, RecordError> {
        self.find(name).ok_or(RecordError::Missing(name))
    }

    fn number<T: FromStr>(&self, name: &'static str) -> Result<T, RecordError> {
        number(name, self.need(name)?)
    }

    fn decimals(&self) -> Result<PairDecimals, RecordError> {
        let decimals = PairDecimals {
            price: self.number(field::PRICE_DECIMALS)?,
            amount: self.number(field::AMOUNT_DECIMALS)?,
            quote: self.number(field::QUOTE_DECIMALS)?,
        };
        if decimals.in_range() {
            Ok(decimals)
        } else {
            Err(fault(
                field::PRICE_DECIMALS,
                "or another of the three decimals is out of range",
            ))
        }
    }

    fn priority(&self) -> Result<Option<u64>, RecordError> {
        let Some(text) = self.find(field::PRIORITY) else {
            return Ok(None);
        };
        let priority = number(field::PRIORITY, text)?;
        if priority > PRIORITY_INVERSION {
            return Err(fault(field::PRIORITY, "is above any that can be given"));
        }
        Ok(Some(priority))
    }

    fn side(&self) -> Result<Side, RecordError> {
        match self.need(field::SIDE)? {
            "ask" => Ok(Side::Ask),
            "bid" => Ok(Side::Bid),
            _ => Err(fault(field::SIDE, "is neither ask nor bid")),
        }
    }

    /// An empty user is none, as some writers have it.
    fn user(&self) -> Result<Option<UserId>, RecordError> {
        let text = self.find(field::USER_ID).filter(|text| !text.is_empty());
        text.map(|text| identifier(field::USER_ID, text, UserId::new))
            .transpose()
    }
}

fn fault(field: &'static str, problem: &str) -> RecordError {
    RecordError::Field {
        field,
        problem: problem.to_owned(),
    }
}

fn unfit(field: &'static str, why: UnfitDecimal) -> RecordError {
    let problem = match why {
        UnfitDecimal::Precision => "has more decimals than the record declares",
        UnfitDecimal::Range => "is out of range",
    };
    fault(field, problem)
}

fn number<T: FromStr>(field: &'static str, text: &str) -> Result<T, RecordError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = digits.then(|| text.parse().ok()).flatten();
    parsed.ok_or_else(|| fault(field, "is no whole number in its range"))
}

fn identifier<T, E: std::fmt::Display>(
    field: &'static str,
    text: &str,
    new: impl Fn(&str) -> Result<T, E>,
) -> Result<T, RecordError> {
    new(text).map_err(|problem| fault(field, &problem.to_string()))
}

/// A number of a record. Zeros behind it carry no meaning there.
fn decimal(field: &'static str, text: &str) -> Result<Decimal, RecordError> {
    let plain = match text.split_once('.') {
        Some((_, fraction)) if !fraction.is_empty() => {
            text.trim_end_matches('0').trim_end_matches('.')
        }
        _ => text,
    };
    Decimal::parse_or_zero(plain).map_err(|problem| fault(field, &problem.to_string()))
}

fn quantity(
    field: &'static str,
    text: &str,
    decimals: PairDecimals,
) -> Result<Quantity, RecordError> {
    let quantity = decimal(field, text)?.quantity(decimals);
    quantity.map_err(|why| unfit(field, why))
}
