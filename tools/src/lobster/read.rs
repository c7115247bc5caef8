//! Reading the two files.
//!
//! Numbers are read as integers: prices are in steps of 1/10000, and a time becomes milliseconds
//! by its digits, never by way of a float. A line that cannot be read ends the reading; a trace
//! with a hole in it would compare with nothing.

use conductor_engine::{OrderId, Price, Side};
use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// Where LOBSTER writes that a level is empty; bids have it negated.
const NO_PRICE: i64 = 9_999_999_999;
/// Columns of a level: ask price, ask size, bid price, bid size.
const LEVEL_COLUMNS: usize = 4;
const MILLISECONDS_PER_DAY: u64 = 86_400_000;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A new limit order.
    Place,
    /// Some of an order is withdrawn.
    Reduce,
    /// All that is left of an order is withdrawn.
    Delete,
    /// A visible order trades.
    Execute,
    /// A hidden order trades; the visible book does not change.
    ExecuteHidden,
    /// An auction trades; the visible book does not change.
    Cross,
    /// Trading halts or resumes.
    Halt,
}

/// One line of the message file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Milliseconds after midnight.
    pub milliseconds: u64,
    /// What it says.
    pub kind: Kind,
    /// The order as the file numbers it.
    pub order: OrderId,
    /// How much is placed, withdrawn or traded.
    pub size: u64,
    /// The order's price; `None` where the message is about no visible order.
    pub price: Option<Price>,
    /// The side of the order at rest.
    pub side: Side,
}

/// One line of the book file: the best levels after the message of the same line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookRow {
    /// Sizes of the sell side by price.
    pub asks: BTreeMap<Price, u64>,
    /// Sizes of the buy side by price.
    pub bids: BTreeMap<Price, u64>,
    /// How many levels a side can show.
    pub levels_max: usize,
}

impl BookRow {
    /// The levels of a side.
    pub const fn side(&self, side: Side) -> &BTreeMap<Price, u64> {
        match side {
            Side::Ask => &self.asks,
            Side::Bid => &self.bids,
        }
    }

    pub(super) const fn side_mut(&mut self, side: Side) -> &mut BTreeMap<Price, u64> {
        match side {
            Side::Ask => &mut self.asks,
            Side::Bid => &mut self.bids,
        }
    }

    /// Best price and its size.
    pub fn best(&self, side: Side) -> Option<(Price, u64)> {
        let levels = self.side(side);
        let best = match side {
            Side::Ask => levels.first_key_value(),
            Side::Bid => levels.last_key_value(),
        };
        best.map(|(price, size)| (*price, *size))
    }

    /// The worst price that the row would show if something stood there; `None` when it would
    /// show any.
    pub fn worst_shown(&self, side: Side) -> Option<Price> {
        let levels = self.side(side);
        if levels.len() < self.levels_max {
            return None;
        }
        let worst = match side {
            Side::Ask => levels.last_key_value(),
            Side::Bid => levels.first_key_value(),
        };
        worst.map(|(price, _)| *price)
    }
}

/// Both files, line by line.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The messages.
    pub messages: Vec<Message>,
    /// The book after each.
    pub rows: Vec<BookRow>,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file cannot be read.
    #[error("cannot read the {file} file")]
    Source {
        /// Which of the two.
        file: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A line breaks the format.
    #[error("line {line} of the {file} file {problem}")]
    Line {
        /// Which of the two.
        file: &'static str,
        /// The line, from one.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The files do not belong together.
    #[error(
        "the message file has {messages} lines and the book file {rows}; give two files of one \
         recording"
    )]
    Lengths {
        /// Lines of the message file.
        messages: usize,
        /// Lines of the book file.
        rows: usize,
    },
    /// There is nothing in the files.
    #[error("the files are empty; give a recording with at least one message")]
    Empty,
}

/// Reads both files.
///
/// # Errors
/// [`ReadError`] with the line that breaks the format.
pub fn read(messages: impl BufRead, book: impl BufRead) -> Result<Recording, ReadError> {
    let messages = lines(messages, "message", message)?;
    let rows = lines(book, "book", book_row)?;
    if messages.len() != rows.len() {
        return Err(ReadError::Lengths {
            messages: messages.len(),
            rows: rows.len(),
        });
    }
    if messages.is_empty() {
        return Err(ReadError::Empty);
    }
    Ok(Recording { messages, rows })
}

fn lines<T>(
    source: impl BufRead,
    file: &'static str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Vec<T>, ReadError> {
    let mut read = Vec::new();
    for (place, line) in source.lines().enumerate() {
        let line = line.map_err(|source| ReadError::Source { file, source })?;
        let parsed = parse(line.trim_end()).map_err(|problem| ReadError::Line {
            file,
            line: place + 1,
            problem,
        })?;
        read.push(parsed);
    }
    Ok(read)
}

fn message(line: &str) -> Result<Message, &'static str> {
    let mut columns = line.split(',');
    let mut column = || columns.next().ok_or("has fewer than six columns");
    let milliseconds = milliseconds(column()?)?;
    let kind = kind(column()?)?;
    let order = order(column()?)?;
    let size = column()?
        .parse()
        .map_err(|_| "has no size in column four")?;
    let price: i64 = column()?
        .parse()
        .map_err(|_| "has no price in column five")?;
    let side = side(column()?)?;
    let price = u64::try_from(price).ok().and_then(Price::new);
    let of_an_order = matches!(
        kind,
        Kind::Place | Kind::Reduce | Kind::Delete | Kind::Execute
    );
    if of_an_order && (price.is_none() || size == 0) {
        return Err("is about an order, and so needs a price and a size above zero");
    }
    Ok(Message {
        milliseconds,
        kind,
        order,
        size,
        price,
        side,
    })
}

/// An order's id, which is a number; of no visible order it may be below zero.
fn order(text: &str) -> Result<OrderId, &'static str> {
    const PROBLEM: &str = "has no order number in column three";
    let _: i64 = text.parse().map_err(|_| PROBLEM)?;
    OrderId::new(text).map_err(|_| PROBLEM)
}

fn kind(text: &str) -> Result<Kind, &'static str> {
    Ok(match text {
        "1" => Kind::Place,
        "2" => Kind::Reduce,
        "3" => Kind::Delete,
        "4" => Kind::Execute,
        "5" => Kind::ExecuteHidden,
        "6" => Kind::Cross,
        "7" => Kind::Halt,
        _ => return Err("has a type other than 1 to 7 in column two"),
    })
}

fn side(text: &str) -> Result<Side, &'static str> {
    match text {
        "1" => Ok(Side::Bid),
        "-1" => Ok(Side::Ask),
        _ => Err("has a side other than 1 and -1 in column six"),
    }
}

/// Seconds after midnight, with any number of digits behind the point, as milliseconds.
fn milliseconds(text: &str) -> Result<u64, &'static str> {
    const PROBLEM: &str = "has no time of the day, in seconds, in column one";
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PROBLEM);
    }
    let seconds: u64 = whole.parse().map_err(|_| PROBLEM)?;
    let thousandths = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(3)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let milliseconds = seconds.checked_mul(1_000).map(|whole| whole + thousandths);
    milliseconds
        .filter(|time| *time < MILLISECONDS_PER_DAY)
        .ok_or(PROBLEM)
}

fn book_row(line: &str) -> Result<BookRow, &'static str> {
    let numbers: Vec<i64> = line
        .split(',')
        .map(|text| {
            text.parse()
                .map_err(|_| "holds something that is no number")
        })
        .collect::<Result<_, _>>()?;
    if !numbers.len().is_multiple_of(LEVEL_COLUMNS) {
        return Err("has a number of columns that four does not divide");
    }
    let mut row = BookRow {
        levels_max: numbers.len() / LEVEL_COLUMNS,
        ..BookRow::default()
    };
    for level in numbers.chunks_exact(LEVEL_COLUMNS) {
        put(&mut row.asks, level[0], level[1])?;
        put(&mut row.bids, level[2], level[3])?;
    }
    Ok(row)
}

fn put(levels: &mut BTreeMap<Price, u64>, price: i64, size: i64) -> Result<(), &'static str> {
    if price.abs() == NO_PRICE {
        return Ok(());
    }
    let price = u64::try_from(price).ok().and_then(Price::new);
    let size = u64::try_from(size).ok().filter(|size| *size > 0);
    match (price, size) {
        (Some(price), Some(size)) if levels.insert(price, size).is_none() => Ok(()),
        (Some(_), Some(_)) => Err("names one price of a side twice"),
        _ => Err("has a level whose price or size is not above zero"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_by_its_digits() {
        assert_eq!(milliseconds("34200.004241176"), Ok(34_200_004));
        assert_eq!(milliseconds("34200.02606064"), Ok(34_200_026));
        assert_eq!(milliseconds("34200.9"), Ok(34_200_900));
        assert_eq!(milliseconds("34200"), Ok(34_200_000));
        assert!(milliseconds("86400").is_err());
        assert!(milliseconds("3.x").is_err());
    }

    #[test]
    fn a_line_that_breaks_the_format_is_named() {
        let first = "1.0,1,7,10,100,1\n";
        let message = |second: &str| {
            let text = format!("{first}{second}\n");
            let error = read(text.as_bytes(), "".as_bytes()).expect_err(second);
            error.to_string()
        };
        assert!(message("1.0,9,7,10,100,1").starts_with("line 2 of the message file has a type"));
        assert!(message("1.0,1,7,10,100").contains("six columns"));
        assert!(message("1.0,1,7,0,100,1").contains("above zero"));
        assert!(message("1.0,1,7,1,100,0").contains("side"));
        let lengths = read(first.as_bytes(), "".as_bytes()).expect_err("lengths differ");
        assert!(lengths.to_string().contains("1 lines and the book file 0"));
    }

    #[test]
    fn an_empty_level_is_no_level() {
        let row = book_row("200,5,100,6,9999999999,0,-9999999999,0").expect("a row");
        assert_eq!((row.asks.len(), row.bids.len(), row.levels_max), (1, 1, 2));
        assert_eq!(row.worst_shown(Side::Ask), None);
        assert_eq!(row.best(Side::Bid), Price::new(100).map(|price| (price, 6)));
    }
}
