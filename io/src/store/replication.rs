//! What a primary says of its replicas.
//!
//! A replica that is stopped stays in the list of those that follow for as long as its socket
//! stands, a minute by default. What tells is its lag: a replica that lives acknowledges once a
//! second, whether or not anything is written.

/// Whole seconds since a replica's last word, as the primary's clock counts them, above which it is
/// not counted on. One that lives has 0 or 1, and 2 where both clocks fall badly.
const LAG_SECONDS_MAX: u64 = 2;

/// Reads `INFO replication`: how many replicas follow and answer; `None` from a server that is no
/// primary.
pub fn read(info: &str) -> Option<u32> {
    let mut primary = false;
    let mut replicas = 0;
    for (name, value) in info.lines().filter_map(|line| line.trim().split_once(':')) {
        if name == "role" {
            primary = value == "master";
        } else if is_replica(name) && answers(value) {
            replicas += 1;
        }
    }
    primary.then_some(replicas)
}

/// Reads `INFO replication`: the number of the history that the server replicates, which is another
/// one after every promotion; `None` where it names none.
pub fn history(info: &str) -> Option<String> {
    let named = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("master_replid:"));
    named.map(str::to_owned)
}

/// `slave0` and so on.
fn is_replica(name: &str) -> bool {
    let number = name.strip_prefix("slave").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// `ip=127.0.0.1,port=6380,state=online,offset=14,lag=0`
fn answers(value: &str) -> bool {
    let field = |name: &str| {
        let mut fields = value.split(',').filter_map(|field| field.split_once('='));
        fields
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    };
    let lag = field("lag").and_then(|lag| lag.parse::<u64>().ok());
    field("state") == Some("online") && lag.is_none_or(|lag| lag <= LAG_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
        slave0:ip=127.0.0.1,port=6380,state=online,offset=14,lag=1,type=replica\r\n\
        slave1:ip=127.0.0.1,port=6381,state=online,offset=14,lag=3,type=replica\r\n\
        slave2:ip=127.0.0.1,port=6382,state=wait_bgsave,offset=0,lag=0,type=replica\r\n\
        master_repl_offset:14\r\n";

    #[test]
    fn replicas_that_follow_and_answer_are_counted() {
        assert_eq!(read(INFO), Some(1));
        assert_eq!(read(&INFO.replace("lag=3", "lag=2")), Some(2));
        assert_eq!(read(&INFO.replace("role:master", "role:slave")), None);
        assert_eq!(read(""), None);
        assert_eq!(history(INFO), None);
        let named = format!("{INFO}master_replid:8f2a\r\nmaster_replid2:0000\r\n");
        assert_eq!(history(&named).as_deref(), Some("8f2a"));
    }
}
