//! The private servers themselves, with the real programs: they come up as a cell needs them, they
//! obey, and nothing of them is left, whatever ends their owner.

use conductor_config::{Settings, Sources, StoreAddress};
use conductor_tools::testbed::{
    CellServers, Direction, Folder, HoldProxy, Launch, Layout, Process, Rabbit, RabbitOptions,
    StoreAddresses, Valkey, ValkeyOptions, wait_for,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(60);
/// Names the file in which an owner that is to be killed says what it owns.
const OWNER_FILE: &str = "TESTBED_OWNER_FILE";

fn ask<T: redis::FromRedisValue>(
    connection: &mut redis::Connection,
    words: &[&str],
) -> redis::RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query(connection)
}

#[test]
fn a_cell_with_everything_comes_up_and_goes() {
    let layout = Layout {
        partitions: 2,
        sentinels: 3,
        ..Layout::default()
    };
    let cell = CellServers::start(&layout).expect("the cell starts");
    let folder = cell.folder().path().to_owned();

    let rabbit = cell.rabbit();
    rabbit
        .log_in(rabbit.user(), rabbit.password())
        .expect("the user may log in");
    let refused = rabbit
        .log_in(rabbit.user(), "wrong")
        .expect_err("a wrong password is refused");
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{refused}");
    assert!(
        rabbit
            .control(&["list_users"])
            .expect("rabbitmqctl works")
            .contains("conductor")
    );

    let sentinels = cell.sentinels().expect("Sentinels were asked for");
    for partition in 0..cell.partitions() {
        let group = cell.store(partition);
        a_write_is_on_both_disks(&group.primary);
        for number in 0..sentinels.count() {
            let name = CellServers::sentinel_group(partition);
            let primary = sentinels
                .primary(number, &name)
                .expect("a Sentinel answers");
            assert_eq!(primary, group.primary.address());
        }
    }
    secrets_are_private(&folder);
    the_settings_lead_to_the_servers(&cell);

    drop(cell);
    assert!(!folder.exists(), "the folder is gone");
    assert!(processes_of(&folder).is_empty(), "no process is left");
}

fn a_write_is_on_both_disks(primary: &Valkey) {
    let mut connection = primary
        .connection_as("conductor", &primary.users().conductor)
        .expect("the conductor's user may log in");
    let key = "matching:{matching-p0}:probe";
    ask::<()>(&mut connection, &["SET", key, "1"]).expect("a write");
    ask::<u32>(&mut connection, &["WAIT", "1", "5000"]).expect("WAIT");
    let reached: (u32, u32) =
        ask(&mut connection, &["WAITAOF", "1", "1", "5000"]).expect("WAITAOF");
    assert_eq!(reached, (1, 1));
}

/// The settings file is read by our own rules, in both forms.
fn the_settings_lead_to_the_servers(cell: &CellServers) {
    let load = |file: &Path| {
        let sources = Sources {
            file: Some(file.to_owned()),
            ..Sources::default()
        };
        Settings::load(&sources).expect("the settings are good")
    };
    let settings = load(cell.settings_file());
    let broker = &settings.broker;
    let nodes: Vec<String> = broker.nodes.iter().map(ToString::to_string).collect();
    assert_eq!(nodes, [cell.rabbit().address().to_string()]);
    assert_eq!(broker.password.expose(), cell.rabbit().password());
    let login = settings
        .store_login
        .as_ref()
        .expect("a log-in for the stores");
    assert_eq!(login.password.expose(), cell.store_users().conductor);
    let watched = |store: &StoreAddress| matches!(store, StoreAddress::Sentinel { .. });
    assert!(
        settings
            .partitions
            .iter()
            .all(|partition| watched(&partition.store))
    );

    let addresses: Vec<_> = (0..cell.partitions())
        .map(|number| cell.store(number).primary.address())
        .collect();
    let mut direct = cell.settings();
    direct.stores = StoreAddresses::Direct(addresses.clone());
    let settings = load(&direct.write("direct.toml").expect("it can be written"));
    for (partition, address) in settings.partitions.iter().zip(addresses) {
        let (host, port) = (address.ip().to_string(), address.port());
        assert_eq!(partition.store, StoreAddress::Direct { host, port });
    }
}

/// Every file that may hold a password is closed to others, and so is the folder.
fn secrets_are_private(folder: &Path) {
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o077;
    assert_eq!(mode(folder), 0, "{}", folder.display());
    for name in [
        "conductor.toml",
        "store-password",
        "rabbit/rabbitmq.conf",
        "store-p0/server.conf",
    ] {
        assert_eq!(mode(&folder.join(name)), 0, "{name}");
    }
}

#[test]
fn the_users_have_the_rights_they_need_and_no_more() {
    let folder = Folder::new().expect("a folder");
    let server = Valkey::primary(&folder, &ValkeyOptions::named("store")).expect("it starts");
    assert!(
        server.connection_as("conductor", "wrong").is_err(),
        "a wrong password"
    );
    assert!(
        server.connection_as("default", "").is_err(),
        "no user without a password"
    );

    let mut conductor = server
        .connection_as("conductor", &server.users().conductor)
        .expect("log-in");
    let commands = "MULTI EXEC WATCH UNWATCH DISCARD GET SET INCR MGET HSET HGETALL HMGET HDEL \
        HINCRBY DEL SADD SMEMBERS ZADD ZREM ZRANGE ZREVRANGE ZSCORE ZCARD XADD XRANGE XLEN XDEL \
        EVAL EVALSHA PEXPIRE PTTL EXISTS SCAN WAIT WAITAOF ROLE INFO PING TYPE";
    for name in commands.split_whitespace() {
        may(&server, "conductor", name, true);
    }
    for name in ["FLUSHALL", "KEYS", "SHUTDOWN", "REPLICAOF", "ACL", "DEBUG"] {
        may(&server, "conductor", name, false);
    }
    let policy: Vec<String> =
        ask(&mut conductor, &["CONFIG", "GET", "appendfsync"]).expect("CONFIG GET");
    assert_eq!(policy, ["appendfsync", "always"]);
    ask::<()>(&mut conductor, &["CONFIG", "SET", "appendfsync", "no"]).expect_err("CONFIG SET");
    ask::<()>(&mut conductor, &["SET", "elsewhere", "1"]).expect_err("a foreign key");
    ask::<()>(&mut conductor, &["CLIENT", "SETNAME", "p0"]).expect("CLIENT SETNAME");
}

/// Asks the server's own list of rights, without running anything.
fn may(server: &Valkey, user: &str, command: &str, expected: bool) {
    let user: std::collections::HashMap<String, redis::Value> = server
        .command(&["ACL", "GETUSER", user])
        .expect("the user exists");
    let rights: String =
        redis::from_redis_value(user["commands"].clone()).expect("the rights are a text");
    let mut allowed = false;
    let lower = command.to_lowercase();
    for rule in rights.split_whitespace() {
        let (sign, what) = rule.split_at(1);
        let hit = match what.strip_prefix('@') {
            Some(category) => in_category(server, category, &lower),
            None => what == lower,
        };
        if hit {
            allowed = sign == "+";
        }
    }
    assert_eq!(allowed, expected, "{command} by {rights}");
}

fn in_category(server: &Valkey, category: &str, command: &str) -> bool {
    let members: Vec<String> = match category {
        "all" => return true,
        name => server.command(&["ACL", "CAT", name]).expect("a category"),
    };
    members.iter().any(|member| member == command)
}

#[test]
fn a_server_pauses_resumes_dies_and_comes_back_with_its_data() {
    let folder = Folder::new().expect("a folder");
    let server = Valkey::primary(&folder, &ValkeyOptions::named("store")).expect("it starts");
    server
        .command::<()>(&["SET", "kept", "yes"])
        .expect("a write");

    server.process().pause().expect("it pauses");
    server
        .wait_ready(Duration::from_millis(300))
        .expect_err("a paused server is silent");
    assert!(server.process().is_running(), "paused is not dead");
    server.process().resume().expect("it resumes");
    server.wait_ready(SOON).expect("it answers again");

    let port = server.port();
    server.process().kill().expect("it dies");
    assert!(!server.process().is_running());
    server.restart().expect("it starts again");
    assert_eq!(server.port(), port);
    assert_eq!(
        server.command::<String>(&["GET", "kept"]).expect("a read"),
        "yes"
    );
    let ended = server
        .process()
        .terminate(SOON)
        .expect("it ends in good order");
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_wrong_server_is_one_line_away() {
    let folder = Folder::new().expect("a folder");
    let options = ValkeyOptions::named("store")
        .line("appendonly no")
        .line("io-threads 2");
    let server = Valkey::primary(&folder, &options).expect("it starts");
    for (name, value) in [("appendonly", "no"), ("io-threads", "2")] {
        let found: Vec<String> = server
            .command(&["CONFIG", "GET", name])
            .expect("CONFIG GET");
        assert_eq!(found, [name, value]);
    }
    let nonsense = ValkeyOptions::named("other").line("no-such-setting yes");
    let error = Valkey::primary(&folder, &nonsense)
        .expect_err("it cannot start")
        .to_string();
    assert!(
        error.contains("no-such-setting"),
        "the log is part of the error: {error}"
    );
}

#[test]
fn a_server_without_waitaof_can_be_had_where_the_distribution_has_one() {
    if !Path::new("/usr/bin/redis-server").exists() {
        return;
    }
    let folder = Folder::new().expect("a folder");
    let options = ValkeyOptions::named("store").program("redis-server");
    let server = Valkey::primary(&folder, &options).expect("it starts");
    let version: String = server.command(&["INFO", "server"]).expect("INFO");
    let answer = server.command::<redis::Value>(&["WAITAOF", "0", "0", "1"]);
    assert_eq!(
        version.contains("redis_version:7.0."),
        answer.is_err(),
        "{version}"
    );
}

#[test]
fn sentinels_promote_the_replica_of_a_dead_primary() {
    let layout = Layout {
        sentinels: 3,
        ..Layout::default()
    };
    let cell = CellServers::start(&layout).expect("the cell starts");
    let group = cell.store(0);
    let name = CellServers::sentinel_group(0);
    group.primary.process().kill().expect("the primary dies");
    let sentinels = cell.sentinels().expect("Sentinels were asked for");
    let fresh = sentinels
        .wait_switched(&name, group.primary.address(), LATER)
        .expect("a replica is promoted");
    assert_eq!(fresh, group.replicas[0].address());
    group.primary.restart().expect("the old primary comes back");
    group.primary.wait_following(LATER).expect("as a replica");
    let promoted = group.server_at(fresh).expect("one of ours");
    promoted
        .wait_durable(1, LATER)
        .expect("a write is on both disks again");
}

#[test]
fn a_broker_comes_back_on_its_port_with_its_queues() {
    let folder = Folder::new().expect("a folder");
    let rabbit = Rabbit::start(&folder, &RabbitOptions::default()).expect("it starts");
    let declare = "rabbit_amqqueue:declare({resource, <<\"/\">>, queue, <<\"kept\">>}, true, false, \
        [{<<\"x-queue-type\">>, longstr, <<\"quorum\">>}], none, <<\"test\">>).";
    rabbit
        .control(&["eval", declare])
        .expect("a quorum queue is declared");
    rabbit.process().pause().expect("it pauses");
    rabbit.process().resume().expect("it resumes");
    rabbit.restart().expect("it comes back after a kill");
    let queues = rabbit
        .control(&["list_queues", "name", "type"])
        .expect("its queues");
    assert!(queues.contains("kept\tquorum"), "{queues}");
    rabbit.stop().expect("it ends in good order");
}

/// Not a test of its own: what the next one starts as an owner and kills.
#[test]
fn owner_that_is_killed() {
    let Some(file) = std::env::var_os(OWNER_FILE).map(PathBuf::from) else {
        return;
    };
    let folder = Folder::new().expect("a folder");
    let rabbit = Rabbit::begin(&folder, &RabbitOptions::default()).expect("it begins");
    let primary = Valkey::primary(&folder, &ValkeyOptions::named("store")).expect("it starts");
    let _replica =
        Valkey::replica_of(&folder, &primary, &ValkeyOptions::named("replica")).expect("it starts");
    primary
        .process()
        .pause()
        .expect("a stopped process must go too");
    rabbit.wait_ready(LATER).expect("the broker is up");
    let whole = file.with_extension("whole");
    std::fs::write(&whole, folder.path().display().to_string()).expect("it can be written");
    std::fs::rename(&whole, &file).expect("it can be renamed");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_owner_leaves_no_process_and_no_folder() {
    let own = Folder::new().expect("a folder");
    let file = own.path().join("owned");
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "owner_that_is_killed", "--nocapture"])
        .env(OWNER_FILE, &file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an owner starts");
    let owned = wait_for("folder of the owner", LATER, || {
        std::fs::read_to_string(&file).map_err(|error| error.to_string())
    });
    let folder = PathBuf::from(owned.expect("the owner says what it owns"));
    // The broker, its epmd, two stores and the keeper at the least.
    let before = processes_of(&folder);
    assert!(before.len() >= 5, "{before:?}");

    owner.kill().expect("the owner is killed");
    owner.wait().expect("and is dead");
    wait_for("end of all that it owned", SOON, || {
        let left = processes_of(&folder);
        let gone = left.is_empty() && !folder.exists();
        if gone {
            Ok(())
        } else {
            Err(format!("{left:?}, folder: {}", folder.exists()))
        }
    })
    .expect("nothing is left");
}

/// The processes that work in a folder, or name it in their arguments or environment.
fn processes_of(folder: &Path) -> Vec<String> {
    let text = folder.display().to_string();
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter(|entry| entry.file_name().to_string_lossy() != own)
        .filter(|entry| {
            let mentions = |name| {
                let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(&text)
            };
            let inside = std::fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|place| place.display().to_string().contains(&text));
            inside || mentions("cmdline") || mentions("environ")
        })
        .map(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            format!("{} {}", entry.file_name().display(), name.trim())
        })
        .collect()
}

#[test]
fn a_process_says_how_it_ended_and_what_it_wrote() {
    let folder = Folder::new().expect("a folder");
    let launch = Launch::new("/bin/sh")
        .argument("-c")
        .argument("echo begun with $OWN; read -r line || echo no input; exit 78")
        .variable("OWN", "a variable");
    let process = Process::start(&folder, "short", launch).expect("it starts");
    let line = process.wait_for_log("begun", SOON).expect("its line");
    assert_eq!(line, "begun with a variable");
    assert_eq!(process.wait_exit(SOON).expect("it ends").code(), Some(78));
    let error = process
        .wait_for_log("never", SOON)
        .expect_err("it has ended")
        .to_string();
    assert!(
        error.contains("no input") && error.contains("78"),
        "{error}"
    );

    process.restart().expect("it starts again");
    process
        .wait_for_log("begun", SOON)
        .expect("the line of the second run");
    process.wait_exit(SOON).expect("it ends");
    assert_eq!(
        process.log().lines().count(),
        2,
        "the log of this run alone"
    );
    assert_eq!(
        process.log_tail(10).lines().count(),
        4,
        "the log of both runs"
    );

    let absent = Process::start(&folder, "absent", Launch::new("no-such-program"));
    let error = absent.expect_err("there is no such program").to_string();
    assert!(
        error.contains("no-such-program") && error.contains("tools/setup"),
        "{error}"
    );
}

/// Sends what comes back in capitals, one connection at a time, until the listener is dropped.
fn echo() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let accepting = listener.try_clone().expect("a clone");
    std::thread::spawn(move || {
        for stream in accepting.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    (listener, address)
}

fn answer(mut stream: TcpStream) {
    let mut bytes = [0_u8; 1024];
    while let Ok(count) = stream.read(&mut bytes) {
        if count == 0
            || stream
                .write_all(&bytes[..count].to_ascii_uppercase())
                .is_err()
        {
            return;
        }
    }
}

fn connect(proxy: &HoldProxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
    stream.set_read_timeout(Some(SOON)).expect("a bound");
    stream
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).expect("a write");
}

fn hear(stream: &mut TcpStream, text: &str) {
    let mut bytes = vec![0_u8; text.len()];
    stream.read_exact(&mut bytes).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

fn hear_nothing(stream: &mut TcpStream) {
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a bound");
    let error = stream.read(&mut [0_u8; 1]).expect_err("nothing comes");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    stream.set_read_timeout(Some(SOON)).expect("a bound");
}

#[test]
fn the_proxy_holds_from_a_pattern_on_and_releases_in_order() {
    let (_server, address) = echo();
    let proxy = HoldProxy::start(address).expect("it starts");
    let (mut first, mut second) = (connect(&proxy), connect(&proxy));
    say(&mut first, "one ");
    hear(&mut first, "ONE ");

    proxy.hold_when(b"exec");
    say(&mut first, "two ex");
    hear(&mut first, "TWO EX");
    assert!(!proxy.is_holding());
    say(&mut first, "ec three ");
    proxy
        .wait_holding(SOON)
        .expect("the pattern came in two pieces");
    say(&mut first, "four");
    hear_nothing(&mut first);
    say(&mut second, "exec passes here");
    hear(&mut second, "EXEC PASSES HERE");
    wait_for("all of it held", SOON, || match proxy.held_bytes() {
        13 => Ok(()),
        other => Err(format!("{other} bytes")),
    })
    .expect("both pieces are held");

    proxy.release();
    hear(&mut first, "EC THREE FOUR");
    // The bytes can be here before the proxy's thread has said that it holds none any more.
    proxy.wait_empty(SOON).expect("everything has gone");
    say(&mut first, "exec again");
    hear(&mut first, "EXEC AGAIN");

    proxy.hold_when_going(Direction::ToClient, b"FIVE");
    say(&mut first, "five");
    proxy.wait_holding(SOON).expect("the answer is held");
    hear_nothing(&mut first);
    proxy.release();
    hear(&mut first, "FIVE");
}

#[test]
fn the_proxy_delivers_what_a_client_left_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let proxy = HoldProxy::start(listener.local_addr().expect("its address")).expect("it starts");
    proxy.hold_all(Direction::ToServer);
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().expect("the proxy connects");
    server.set_read_timeout(Some(SOON)).expect("a bound");
    say(&mut client, "MULTI EXEC");
    proxy.wait_holding(SOON).expect("it is held");
    drop(client);
    hear_nothing(&mut server);
    proxy.release();
    let mut all = String::new();
    server
        .read_to_string(&mut all)
        .expect("the bytes and then the end");
    assert_eq!(all, "MULTI EXEC");
}

#[test]
fn the_proxy_cuts_and_refuses() {
    let (_server, address) = echo();
    let proxy = HoldProxy::start(address).expect("it starts");
    let mut client = connect(&proxy);
    say(&mut client, "one");
    hear(&mut client, "ONE");
    proxy.cut();
    assert!(
        matches!(client.read(&mut [0_u8; 1]), Ok(0) | Err(_)),
        "the connection is cut"
    );

    proxy.refuse(true).expect("it refuses");
    let refused = TcpStream::connect(proxy.address()).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.refuse(false).expect("it takes connections again");
    let mut client = connect(&proxy);
    say(&mut client, "two");
    hear(&mut client, "TWO");
    let begin = Instant::now();
    drop(proxy);
    assert!(begin.elapsed() < SOON, "it ends at once");
}
