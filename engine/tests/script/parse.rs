//! From lines to commands.

use conductor_engine::command::RefusedCommand;
use conductor_engine::limits::BATCH_ENTRIES_MAX;
use conductor_engine::{
    Body, Command, CommandId, Decimal, Incoming, NewOrder, OrderId, OrderKind, PairDecimals,
    PairId, PartitionId, Refusal, Side, TimeInForce, Timestamp, UserId,
};

/// What one line says.
pub(crate) enum Line {
    /// Which partition of how many the trace is about.
    Cell { partition: u32, count: u32 },
    /// The decimals a pair is configured with.
    Configure {
        pair: PairId,
        decimals: PairDecimals,
    },
    /// The decimals of orders that name none.
    Decimals,
    /// A message for the engine.
    Message(Box<Incoming>),
}

/// Reads the lines of one trace; commands are named `c1`, `c2` and so on.
pub(crate) struct Reader {
    commands: u64,
    decimals: PairDecimals,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            commands: 0,
            decimals: decimals("2/0/2"),
        }
    }
}

impl Reader {
    /// Reads one line.
    ///
    /// # Panics
    /// When the line is not of the language; the message shows it.
    pub(crate) fn read(&mut self, line: &str) -> Line {
        if let Some(rest) = line.strip_prefix("refused malformed") {
            return Line::Message(Box::new(self.refused(rest)));
        }
        let mut words = Words::of(line);
        if words.take("cell") {
            let partition = words.number("a partition");
            words.demand("of");
            let count = words.number("a count");
            return Line::Cell { partition, count };
        }
        if words.take("configure") {
            words.demand("pair");
            let pair = PairId(words.number("a pair"));
            words.demand("decimals");
            let decimals = decimals(words.next("decimals"));
            return Line::Configure { pair, decimals };
        }
        if words.take("decimals") {
            self.decimals = decimals(words.next("decimals"));
            return Line::Decimals;
        }
        Line::Message(Box::new(Incoming::Command(self.command(words))))
    }

    fn command(&mut self, mut words: Words<'_>) -> Command {
        self.commands += 1;
        let (mut pair, mut partition, mut milliseconds) = (PairId(1), None, self.commands);
        loop {
            if words.take("pair") {
                pair = PairId(words.number("a pair"));
            } else if words.take("partition") {
                partition = Some(PartitionId(words.number("a partition")));
            } else if words.take("time") {
                milliseconds = words.number("milliseconds").into();
            } else {
                break;
            }
        }
        let timestamp = time(milliseconds);
        Command {
            id: self.command_id(),
            pair,
            partition,
            timestamp,
            body: self.body(words, timestamp),
        }
    }

    fn body(&self, mut words: Words<'_>, timestamp: Timestamp) -> Body {
        if words.take("replace:") {
            return self.replace(&words, timestamp);
        }
        if words.take("cancel") {
            let order = words.order();
            words.end();
            return Body::Cancel { order };
        }
        if !words.take("amend") {
            return Body::Place(self.order(words, timestamp));
        }
        let order = words.order();
        let price = words.take("price").then(|| words.decimal());
        let volume = words.take("volume").then(|| words.decimal());
        words.end();
        Body::Amend {
            order,
            price,
            volume,
        }
    }

    fn replace(&self, words: &Words<'_>, timestamp: Timestamp) -> Body {
        let (mut cancel, mut place) = (Vec::new(), Vec::new());
        let (_, entries) = words.line.split_once("replace:").expect("it was there");
        for entry in entries.split(';') {
            let mut words = Words::of(entry);
            if words.take("cancel") {
                let order = words.order();
                let mut times: usize = 1;
                if !words.rest.is_empty() {
                    times = words.number("a number").try_into().expect("a small number");
                    words.demand("times");
                }
                assert!(times <= BATCH_ENTRIES_MAX + 1, "too many: {entry}");
                cancel.extend(std::iter::repeat_n(order, times));
            } else {
                place.push(self.order(words, timestamp));
            }
        }
        Body::Replace { cancel, place }
    }

    fn order(&self, mut words: Words<'_>, timestamp: Timestamp) -> NewOrder {
        let user = words.next("a user");
        let side = match words.next("buys or sells") {
            "buys" => Side::Bid,
            "sells" => Side::Ask,
            other => words.wrong(&format!("buys or sells, not {other}")),
        };
        let volume = words.decimal();
        let mut kind = OrderKind::Market;
        if words.take("@") {
            let price = words.decimal();
            let time_in_force = match words.take("ioc") {
                true => TimeInForce::ImmediateOrCancel,
                false => TimeInForce::GoodTillCancelled,
            };
            kind = OrderKind::Limit {
                price,
                time_in_force,
            };
        } else {
            words.demand("at");
            words.demand("market");
        }
        words.demand("as");
        let mut order = NewOrder {
            id: words.order(),
            user: (user != "house").then(|| UserId::new(user).expect("a user's name")),
            side,
            kind,
            volume,
            decimals: self.decimals,
            timestamp,
        };
        if words.take("decimals") {
            order.decimals = decimals(words.next("decimals"));
        }
        if words.take("stamped") {
            order.timestamp = time(words.number("milliseconds").into());
        }
        words.end();
        order
    }

    fn refused(&mut self, rest: &str) -> Incoming {
        self.commands += 1;
        let (how, detail) = rest.split_once(": ").expect("a colon and a sentence");
        let readable = match how {
            "" => true,
            " without pair and time" => false,
            _ => panic!("\"refused malformed{rest}\" is not of the language"),
        };
        Incoming::Refused(RefusedCommand {
            id: self.command_id(),
            pair: readable.then_some(PairId(1)),
            timestamp: readable.then(|| time(self.commands)),
            refusal: Refusal::Malformed,
            detail: detail.to_owned(),
        })
    }

    fn command_id(&self) -> CommandId {
        CommandId::new(&format!("c{}", self.commands)).expect("a plain id")
    }
}

/// The words of one line.
struct Words<'a> {
    line: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let mut rest: Vec<&str> = line.split_whitespace().collect();
        rest.reverse();
        Self { line, rest }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.rest.last() == Some(&word);
        if found {
            self.rest.pop();
        }
        found
    }

    fn demand(&mut self, word: &str) {
        if !self.take(word) {
            self.wrong(&format!("\"{word}\""));
        }
    }

    fn next(&mut self, what: &str) -> &'a str {
        match self.rest.pop() {
            Some(word) => word,
            None => self.wrong(what),
        }
    }

    fn number(&mut self, what: &str) -> u32 {
        let word = self.next(what);
        word.parse().unwrap_or_else(|_| self.wrong(what))
    }

    fn decimal(&mut self) -> Decimal {
        let word = self.next("a decimal");
        Decimal::parse(word).unwrap_or_else(|_| self.wrong("a decimal"))
    }

    fn order(&mut self) -> OrderId {
        let word = self.next("an order id");
        OrderId::new(word).unwrap_or_else(|_| self.wrong("an order id"))
    }

    fn end(&self) {
        if !self.rest.is_empty() {
            self.wrong("the end of the line");
        }
    }

    fn wrong(&self, expected: &str) -> ! {
        panic!("\"{}\": expected {expected}", self.line.trim())
    }
}

fn time(milliseconds: u64) -> Timestamp {
    Timestamp::new(milliseconds).expect("a time before the year 2100")
}

fn decimals(text: &str) -> PairDecimals {
    let parts: Vec<u8> = text.split('/').flat_map(str::parse).collect();
    let [price, amount, quote] = parts[..] else {
        panic!("\"{text}\" is not of the form price/amount/quote")
    };
    let decimals = PairDecimals {
        price,
        amount,
        quote,
    };
    assert!(decimals.in_range(), "{text} is out of range");
    decimals
}
