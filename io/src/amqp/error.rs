//! What can go wrong with the broker, in words that an operator can act on.

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

/// Why a call to the broker failed. The channel on which it was made is dead after any of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmqpError {
    /// No connection, or no log-in.
    #[error("cannot connect to the broker at {address} as {user}: {reason}")]
    Connect {
        /// Where.
        address: String,
        /// As whom.
        user: String,
        /// What happened.
        reason: String,
    },
    /// The broker is there and does not let the user in.
    #[error(
        "the broker at {address} does not let {user} in: {words}; correct RABBITMQ_USERNAME, \
         RABBITMQ_PASSWORD_FILE or the virtual host in RABBITMQ_URI ([broker] in the file)"
    )]
    Login {
        /// Where.
        address: String,
        /// As whom.
        user: String,
        /// The broker's words.
        words: String,
    },
    /// The broker did not answer in time.
    #[error("the broker did not answer in time: {what}")]
    TimedOut {
        /// What was asked of it.
        what: String,
    },
    /// Something of this name exists with other arguments.
    #[error("{0}")]
    Inequivalent(Inequivalence),
    /// Something that must exist does not.
    #[error("the broker has no {what}; declare it with `cell init`")]
    Missing {
        /// Which queue or exchange.
        what: String,
    },
    /// The user may not do it.
    #[error("{what}: the broker refuses it: {words}; grant the user what it needs")]
    Denied {
        /// What was asked.
        what: String,
        /// The broker's words.
        words: String,
    },
    /// A name is longer than the protocol can carry.
    #[error("a name of {bytes} bytes is longer than the broker takes, 255: {start}…; shorten it")]
    NameTooLong {
        /// Its length.
        bytes: usize,
        /// How it begins.
        start: String,
    },
    /// Anything else.
    #[error("{what} failed: {words}")]
    Failed {
        /// What was asked.
        what: String,
        /// What came back.
        words: String,
    },
}

impl AmqpError {
    /// The error of one call.
    pub(super) fn call(what: &str, error: &lapin::Error) -> Self {
        let what = what.to_owned();
        let ErrorKind::ProtocolError(refusal) = error.kind() else {
            let words = error.to_string();
            return AmqpError::Failed { what, words };
        };
        let words = refusal.get_message().to_string();
        match refusal.kind() {
            AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) => AmqpError::Missing { what },
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => AmqpError::Denied { what, words },
            _ => AmqpError::Failed { what, words },
        }
    }

    /// The error of a connection that was not made. A wrong password and a virtual host that does
    /// not exist do not mend themselves.
    pub(super) fn connecting(address: String, user: String, error: &lapin::Error) -> Self {
        match error.kind() {
            ErrorKind::ProtocolError(refusal)
                if matches!(
                    refusal.kind(),
                    AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)
                        | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED)
                ) =>
            {
                let words = refusal.get_message().to_string();
                AmqpError::Login {
                    address,
                    user,
                    words,
                }
            }
            _ => AmqpError::Connect {
                address,
                user,
                reason: error.to_string(),
            },
        }
    }

    /// Whether waiting and trying again can help. What exists with other arguments, or is not
    /// allowed, stays so until somebody acts.
    pub const fn may_pass(&self) -> bool {
        !matches!(
            self,
            AmqpError::Inequivalent(_)
                | AmqpError::Login { .. }
                | AmqpError::Denied { .. }
                | AmqpError::NameTooLong { .. }
        )
    }
}

/// A queue or an exchange that exists with another argument than ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {kind} {name} exists with other arguments: {argument} is {theirs} at the broker and must \
     be {ours}. To move: stop the producers, let the {kind} drain, delete it, and run `cell init`"
)]
pub struct Inequivalence {
    /// Queue or exchange.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Which argument.
    pub argument: String,
    /// What the broker has.
    pub theirs: String,
    /// What we declare.
    pub ours: String,
}

impl Inequivalence {
    /// Reads the broker's refusal, such as `PRECONDITION_FAILED - inequivalent arg 'x-max-length'
    /// for queue 'q' in vhost '/': received none but current is the value '5' of type 'long'`. The
    /// broker cuts its words at 255 bytes, so the end may be missing.
    pub(super) fn read(kind: &'static str, name: &str, words: &str) -> Option<Self> {
        let (_, rest) = words.split_once("inequivalent arg '")?;
        let (argument, rest) = rest.split_once('\'')?;
        let values = rest.split_once("received ").map(|(_, values)| values);
        let (ours, theirs) = match values.and_then(|values| values.split_once(" but current is ")) {
            Some((ours, theirs)) => (plain(ours), plain(theirs)),
            None => (
                "as `cell init` declares it".to_owned(),
                "another".to_owned(),
            ),
        };
        Some(Self {
            kind,
            name: name.to_owned(),
            argument: argument.to_owned(),
            theirs,
            ours,
        })
    }
}

/// A value as the broker words it, without its type and quotes.
fn plain(value: &str) -> String {
    let value = value.strip_prefix("the value ").unwrap_or(value);
    let quoted = value.strip_prefix('\'');
    let inside = quoted.and_then(|rest| rest.split_once('\''));
    match (inside, value) {
        (Some(("", _)), _) => "the empty text".to_owned(),
        (Some((inside, _)), _) => inside.to_owned(),
        (None, "none") => "not set".to_owned(),
        (None, value) => value.to_owned(),
    }
}

/// Why a message is not known to be in a queue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// No queue is bound for its routing key. Nobody has it.
    #[error("no queue is bound to {exchange} for the routing key {routing_key}")]
    Returned {
        /// The exchange; the default one has no name.
        exchange: String,
        /// The routing key.
        routing_key: String,
    },
    /// The broker could not take it.
    #[error("the broker refused it")]
    Refused,
    /// The broker said nothing in time. It may have taken it.
    #[error("the broker did not confirm it in time")]
    TimedOut,
    /// The channel ended first. The broker may have taken it.
    #[error("the channel ended before the broker confirmed it: {0}")]
    Lost(String),
    /// Its exchange or routing key is longer than the protocol can carry.
    #[error("its exchange or routing key is longer than 255 bytes")]
    NameTooLong,
}

impl PublishError {
    /// Whether the channel is still good after it.
    pub const fn channel_survives(&self) -> bool {
        !matches!(self, PublishError::TimedOut | PublishError::Lost(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_other_arguments_is_read() {
        let words = "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue \
                     'matching:commands.p0' in vhost '/': received the value '1000000' of type \
                     'signedint' but current is none";
        let read = Inequivalence::read("queue", "matching:commands.p0", words).expect("it is one");
        assert_eq!(read.argument, "x-delivery-limit");
        assert_eq!(
            (read.theirs.as_str(), read.ours.as_str()),
            ("not set", "1000000")
        );
        let line = read.to_string();
        assert!(
            line.contains("must be 1000000") && line.contains("`cell init`"),
            "{line}"
        );
    }

    #[test]
    fn a_refusal_that_was_cut_still_names_the_argument() {
        let words =
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'x' in vhost '/': re";
        let read = Inequivalence::read("queue", "x", words).expect("it is one");
        assert_eq!(read.argument, "durable");
        assert!(read.ours.contains("cell init"));
        assert_eq!(
            Inequivalence::read("queue", "x", "RESOURCE_LOCKED - x"),
            None
        );
    }
}
