//! The nine steps of a command's life.
//!
//! The same nine words label the metrics, the histograms and the documentation. All but
//! [`Step::Reply`] and [`Step::Ack`] run on the partition's core.

/// One step of a command's life, in the order in which a command takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Bytes become a command that is valid by construction.
    Decode,
    /// The pair's partition is computed again and compared with what the command declares.
    Route,
    /// The command's and its orders' earlier outcomes are looked up.
    Dedup,
    /// The decision: synchronous, without a clock, in memory only.
    Match,
    /// Record writes, index writes, events and the result become data for one transaction.
    Stage,
    /// One transaction per group is sent and executed.
    Commit,
    /// Enough disks have confirmed the transaction.
    Durable,
    /// The result is handed to whoever asked for it, best effort.
    Reply,
    /// The broker forgets the command; never before it is durable.
    Ack,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Step; 9] = [
        Step::Decode,
        Step::Route,
        Step::Dedup,
        Step::Match,
        Step::Stage,
        Step::Commit,
        Step::Durable,
        Step::Reply,
        Step::Ack,
    ];

    /// The step's place in [`Step::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for labels and headings.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Decode => "decode",
            Step::Route => "route",
            Step::Dedup => "dedup",
            Step::Match => "match",
            Step::Stage => "stage",
            Step::Commit => "commit",
            Step::Durable => "durable",
            Step::Reply => "reply",
            Step::Ack => "ack",
        }
    }
}
