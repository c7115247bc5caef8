//! Every kind of message that somebody can get wrong, and where each of them must go.
//!
//! A table on purpose apart from the code that decodes: it says what the wire promises, and its
//! cases come in pairs with the last value that is still taken.

#![allow(dead_code, reason = "each test file uses a part")]

mod commands;
mod limits;

use serde_json::{Value, json};

/// Where a message must go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// To the parking queue, with a reason that holds this.
    Parked(&'static str),
    /// `command.rejected.v1` with this reason and a detail that holds this.
    Refused(&'static str, &'static str),
    /// `order.rejected.v1` with this reason.
    Rejected(&'static str),
    /// Into the book.
    Accepted,
}

/// One message and its fate.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Its command id; nothing for what has none.
    pub(crate) id: Option<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) fate: Fate,
}

impl Case {
    /// The message as an assertion shows it.
    pub(crate) fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let start: String = body.chars().take(300).collect();
        format!("{:?}, {} bytes: {start}", self.fate, self.body.len())
    }
}

/// All cases; a number in each id keeps them apart.
#[derive(Default)]
pub(crate) struct Cases {
    pub(crate) all: Vec<Case>,
}

impl Cases {
    /// Every case there is.
    pub(crate) fn every() -> Self {
        let mut cases = Self::default();
        commands::add(&mut cases);
        limits::add(&mut cases);
        cases
    }

    /// The next command id.
    fn id(&self) -> String {
        format!("bad-{}", self.all.len())
    }

    /// Bytes that are no command.
    fn parked(&mut self, body: impl Into<Vec<u8>>, reason: &'static str) {
        self.all.push(Case {
            id: None,
            body: body.into(),
            fate: Fate::Parked(reason),
        });
    }

    /// An order that is changed in one place, which a pointer names; a field that is not there yet
    /// is added, and `Value::Null` under a pointer that ends in `!` takes it out.
    fn order(&mut self, pointer: &str, value: Value, fate: Fate) {
        let id = self.id();
        let mut command = order(&id);
        change(&mut command, pointer, value);
        self.command(id, &command, fate);
    }

    /// A command as it stands.
    fn command(&mut self, id: String, command: &Value, fate: Fate) {
        let body = command.to_string().into_bytes();
        self.raw(id, body, fate);
    }

    /// The bytes of a command.
    fn raw(&mut self, id: String, body: Vec<u8>, fate: Fate) {
        self.all.push(Case {
            id: Some(id),
            body,
            fate,
        });
    }
}

/// A good command: a bid far below every ask.
pub(crate) fn order(id: &str) -> Value {
    json!({
        "type": "order.place", "commandId": id, "pairId": 7, "partition": 0,
        "timestamp": 1_767_225_600_000_u64,
        "order": {
            "id": format!("o-{id}"), "side": "bid", "type": "limit", "price": "1.25",
            "volume": "2", "userId": "u-7", "priceDecimals": 2, "amountDecimals": 8,
            "quoteDecimals": 2, "timestamp": 1_767_225_600_000_u64,
        },
    })
}

/// Every case with a good command before it, and one after the last.
pub(crate) fn burst(cases: &[Case]) -> Vec<Vec<u8>> {
    let good = |number| order(&format!("good-{number}")).to_string().into_bytes();
    let mut burst = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        burst.extend([good(number), case.body.clone()]);
    }
    burst.push(good(cases.len()));
    burst
}

/// What must be in the parking queue, each with a part of its reason.
pub(crate) fn parked_of(cases: &[Case]) -> Vec<(&[u8], &str)> {
    let parked = cases.iter().filter_map(|case| match case.fate {
        Fate::Parked(reason) => Some((case.body.as_slice(), reason)),
        _ => None,
    });
    parked.collect()
}

fn change(command: &mut Value, pointer: &str, value: Value) {
    let (place, name) = pointer
        .rsplit_once('/')
        .expect("a pointer begins with a slash");
    let place = command
        .pointer_mut(place)
        .and_then(Value::as_object_mut)
        .expect("an object");
    match name.strip_suffix('!') {
        Some(name) => drop(place.remove(name).expect("it is there to be taken out")),
        None => drop(place.insert(name.to_owned(), value)),
    }
}

/// So many arrays within each other.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}
