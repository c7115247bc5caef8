//! The second judge of a message: the rules of the wire once more, over a whole tree, in the order in
//! which the description of the wire has them. Slow, obvious, and without a line of the decoder's.

use crate::tree::Tree;

/// What a message must be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A command.
    Command,
    /// Refused for the record.
    Refused {
        /// Because its batch has too many entries.
        oversized: bool,
    },
    /// No command.
    Unusable,
}

const ID_BYTES_MAX: usize = 128;
const ENTRIES_MAX: usize = 500;
const YEAR_2100: u64 = 4_102_444_800_000;

/// What the message of this tree must be taken for.
pub(crate) fn fate(tree: &Tree) -> Fate {
    let Some(fields) = tree.fields() else {
        return Fate::Unusable;
    };
    if !once(fields, "commandId").is_some_and(is_id) {
        return Fate::Unusable;
    }
    if entries(fields) > ENTRIES_MAX {
        return Fate::Refused { oversized: true };
    }
    if is_command(fields) {
        Fate::Command
    } else {
        Fate::Refused { oversized: false }
    }
}

/// The value of a field that is there exactly once.
pub(crate) fn once<'a>(fields: &'a [(String, Tree)], name: &str) -> Option<&'a Tree> {
    let mut found = fields.iter().filter(|(each, _)| each == name);
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

/// How many entries a batch has; none where it is no batch.
fn entries(fields: &[(String, Tree)]) -> usize {
    if once(fields, "type").and_then(Tree::text) != Some("orders.replace-batch") {
        return 0;
    }
    let length = |name| {
        once(fields, name)
            .and_then(Tree::list)
            .map_or(0, <[Tree]>::len)
    };
    length("cancel") + length("place")
}

/// Whether every field is known, there once, and good; the last ones may be missing.
fn is_object(fields: &[(String, Tree)], needed: &[Rule], optional: &[Rule]) -> bool {
    let known = |name: &str| needed.iter().chain(optional).any(|(each, _)| *each == name);
    let absent = |name: &str| fields.iter().all(|(each, _)| each != name);
    let good = |(name, rule): &Rule| once(fields, name).is_some_and(rule);
    fields.iter().all(|(name, _)| known(name))
        && needed.iter().all(good)
        && optional.iter().all(|rule| absent(rule.0) || good(rule))
}

type Rule = (&'static str, fn(&Tree) -> bool);

const HEAD: [Rule; 4] = [
    ("type", |it| it.text().is_some()),
    ("commandId", is_id),
    ("pairId", is_32_bits),
    ("timestamp", is_time),
];
const PARTITION: Rule = ("partition", is_32_bits);

fn is_command(fields: &[(String, Tree)]) -> bool {
    let (more, optional): (&[Rule], &[Rule]) = match once(fields, "type")
        .and_then(Tree::text)
        .unwrap_or_default()
    {
        "order.place" => (&[("order", is_order)], &[]),
        "order.cancel" => (&[("orderId", is_id)], &[]),
        "order.amend" => (
            &[("orderId", is_id)],
            &[("price", is_decimal), ("volume", is_decimal)],
        ),
        "orders.replace-batch" => (
            &[
                ("cancel", |it| {
                    it.list().is_some_and(|all| all.iter().all(is_id))
                }),
                ("place", |it| {
                    it.list().is_some_and(|all| all.iter().all(is_order))
                }),
            ],
            &[],
        ),
        _ => return false,
    };
    is_object(
        fields,
        &[&HEAD[..], more].concat(),
        &[&[PARTITION], optional].concat(),
    )
}

const ORDER: [Rule; 8] = [
    ("id", is_id),
    ("side", |it| matches!(it.text(), Some("bid" | "ask"))),
    ("type", |it| matches!(it.text(), Some("limit" | "market"))),
    ("volume", is_decimal),
    ("priceDecimals", |it| it.whole().is_some_and(|it| it <= 12)),
    ("amountDecimals", |it| it.whole().is_some_and(|it| it <= 18)),
    ("quoteDecimals", |it| it.whole().is_some_and(|it| it <= 18)),
    ("timestamp", is_time),
];
const USER: Rule = ("userId", |it| *it == Tree::Null || is_id(it));
const PRICE: Rule = ("price", is_decimal);
const IN_FORCE: Rule = ("timeInForce", |it| matches!(it.text(), Some("gtc" | "ioc")));

fn is_order(tree: &Tree) -> bool {
    let Some(fields) = tree.fields() else {
        return false;
    };
    if once(fields, "type").and_then(Tree::text) == Some("market") {
        return is_object(fields, &ORDER, &[USER]);
    }
    is_object(fields, &[&ORDER[..], &[PRICE]].concat(), &[USER, IN_FORCE])
}

/// `[A-Za-z0-9._:-]{1,128}`
fn is_id(tree: &Tree) -> bool {
    let good = |byte: u8| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b':' | b'-');
    tree.text()
        .is_some_and(|it| (1..=ID_BYTES_MAX).contains(&it.len()) && it.bytes().all(good))
}

fn is_32_bits(tree: &Tree) -> bool {
    tree.whole().is_some_and(|it| it < 1 << 32)
}

fn is_time(tree: &Tree) -> bool {
    tree.whole().is_some_and(|it| it < YEAR_2100)
}

/// `(0|[1-9][0-9]*)(\.[0-9]+)?`, above zero.
fn is_decimal(tree: &Tree) -> bool {
    let Some(text) = tree.text() else {
        return false;
    };
    let mut bytes = text.bytes().peekable();
    match bytes.next() {
        Some(b'0') => {}
        Some(b'1'..=b'9') => while bytes.next_if(u8::is_ascii_digit).is_some() {},
        _ => return false,
    }
    let fraction = match bytes.next() {
        None => true,
        Some(b'.') => bytes.peek().is_some() && bytes.all(|byte| byte.is_ascii_digit()),
        Some(_) => false,
    };
    fraction && text.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}
