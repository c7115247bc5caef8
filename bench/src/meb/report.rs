//! What the benchmark wants to hear of each message, and its one spelling.
//!
//! A report is built where the thing happens, inside the timed part. It is spelled and hashed
//! afterwards.

use super::workload::Message;
use conductor_engine::units::{Price, Quantity};
use conductor_engine::{OrderId, Side};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// One report. `sequence` is the message's.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Accepted {
        sequence: u32,
    },
    Trade {
        sequence: u32,
        price: Price,
        volume: Quantity,
        maker: OrderId,
        taker: OrderId,
    },
    /// Cancelled, or what an immediate order had left.
    Cancelled {
        sequence: u32,
        side: Side,
        price: Price,
        id: OrderId,
    },
    Modified {
        sequence: u32,
    },
    CancelRefused {
        sequence: u32,
    },
    ModifyRefused {
        sequence: u32,
    },
}

/// SHA-256 of all reports, one a line without a last line's end, in lower-case digits.
pub(crate) fn sha256(messages: &[Message], reports: &[Report]) -> String {
    let mut hash = Sha256::new();
    let mut line = String::new();
    for report in reports {
        spell(messages, report, &mut line);
        hash.update(&line);
        line.clear();
        line.push('\n');
    }
    let digest = hash.finalize();
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn spell(messages: &[Message], report: &Report, line: &mut String) {
    let asked = |sequence: u32| &messages[sequence as usize];
    let as_asked = |kind: u8, sequence: u32, line: &mut String| {
        let Message {
            side,
            id,
            price,
            volume,
            ..
        } = asked(sequence);
        let (side, price) = (digit(*side), price.map_or(0, Price::ticks));
        write!(
            line,
            "{kind},{sequence},{side},{id},{price},{}",
            volume.lots()
        )
    };
    // Writing into a text cannot fail.
    let _ = match report {
        Report::Accepted { sequence } => as_asked(0, *sequence, line),
        Report::Trade {
            sequence,
            price,
            volume,
            maker,
            taker,
        } => {
            let (price, volume) = (price.ticks(), volume.lots());
            write!(line, "1,{sequence},{price},{volume},{maker},{taker}")
        }
        Report::Cancelled {
            sequence,
            side,
            price,
            id,
        } => write!(line, "2,{sequence},{},{id},{}", digit(*side), price.ticks()),
        Report::Modified { sequence } => as_asked(3, *sequence, line),
        Report::CancelRefused { sequence } => write!(line, "4,{sequence},{}", asked(*sequence).id),
        Report::ModifyRefused { sequence } => write!(line, "5,{sequence},{}", asked(*sequence).id),
    };
}

const fn digit(side: Side) -> u8 {
    match side {
        Side::Bid => 0,
        Side::Ask => 1,
    }
}
