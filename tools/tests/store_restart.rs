//! A store that is killed and started again has every transaction that it confirmed.
//!
//! A server loads its append-only file as the user `default` and asks for that user's rights at
//! every EXEC. Where that user is off and has none, all transactions of two or more writes are
//! dropped, with nothing but lines in the log, and replicas follow the server that lost them.

use conductor_tools::testbed::{Folder, Launch, Port, Process, Valkey, ValkeyOptions};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Two writes in a transaction, as a group of commands is.
fn write(connection: &mut redis::Connection) {
    redis::pipe()
        .atomic()
        .cmd("SET")
        .arg("matching:a")
        .arg(1)
        .cmd("SET")
        .arg("matching:b")
        .arg(2)
        .exec(connection)
        .expect("the transaction is confirmed");
}

fn read(connection: &mut redis::Connection) -> Vec<Option<u32>> {
    let mut both = redis::cmd("MGET");
    both.arg("matching:a").arg("matching:b");
    both.query(connection).expect("the store answers")
}

const WRITTEN: [Option<u32>; 2] = [Some(1), Some(2)];

#[test]
fn a_private_server_that_was_killed_has_every_transaction() {
    let folder = Folder::new().expect("a folder");
    let server = Valkey::primary(&folder, &ValkeyOptions::named("store")).expect("it starts");
    write(&mut server.connection().expect("a connection"));
    server.restart().expect("it starts again");
    let found = read(&mut server.connection().expect("a connection"));
    assert_eq!(found, WRITTEN, "{}", server.process().log_tail(5));
}

#[test]
fn a_server_that_was_started_as_docker_does_has_every_transaction() {
    let folder = Folder::new().expect("a folder");
    let port = Port::take().expect("a port");
    for name in ["conductor", "replication", "sentinel"] {
        let file = format!("valkey_{name}_password");
        folder.secret_file(&file, "secret").expect("it is written");
    }
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docker/valkey-start.sh");
    let data = folder.subfolder("data").expect("a folder");
    let launch = Launch::new("sh")
        .argument(script)
        .variable("NAME", "127.0.0.1")
        .variable("PORT", port.number().to_string())
        .variable("DATA", &data)
        .variable("RUN", folder.path())
        .variable("SECRETS", folder.path());
    let process = Process::start(&folder, "store", launch).expect("it starts");
    let connect = || {
        process.wait_for("log-in", SOON, || {
            let address = format!("redis://conductor:secret@{}", port.address());
            redis::Client::open(address)
                .and_then(|client| client.get_connection_with_timeout(SOON))
                .and_then(|mut connection| {
                    // It lets a client in while it still loads, and answers nothing but that.
                    redis::cmd("GET").arg("matching:a").exec(&mut connection)?;
                    Ok(connection)
                })
                .map_err(|error| error.to_string())
        })
    };
    write(&mut connect().unwrap_or_else(|error| panic!("{error}")));
    process.restart().expect("it starts again");
    let found = read(&mut connect().unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(found, WRITTEN, "{}", process.log_tail(5));
    assert!(fs::exists(data.join("appendonlydir")).expect("it can be looked for"));
}
