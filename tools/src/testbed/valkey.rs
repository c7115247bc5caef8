//! Private Valkey servers, set up as a cell needs them: every write on disk before its reply.
//!
//! Passwords are in the configuration file, which only this user can read, and never among the
//! arguments. The users have the rights that they need and no more, so that a test that passes
//! here also shows that the conductor asks for nothing else. Extra lines come last in the file,
//! where they win: a test of a wrong setting is one extra line.

use super::error::{Result, TestbedError};
use super::folder::{Folder, fresh_password};
use super::launch::Launch;
use super::ports::Port;
use super::process::Process;
use super::role::Role;
use super::small_disk::SmallDisk;
use super::versions::Versions;
use std::net::SocketAddr;
use std::time::Duration;

/// A server with an empty folder listens at once; a loaded machine may take its time.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long one look at a server may take.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

/// What the conductor and the outbox may do: read and write under `matching:`, transactions,
/// scripts, and the questions of the boot checks.
const CONDUCTOR_RIGHTS: &str = "~matching:* resetchannels -@all +@read +@write +@transaction \
    +@scripting +@connection -@admin -@dangerous +info +role +config|get +acl|dryrun";
/// What a replica may do on its primary.
const REPLICA_RIGHTS: &str = "resetkeys resetchannels -@all +ping +psync +replconf";
/// What Sentinel may do, as its documentation lists it.
const SENTINEL_RIGHTS: &str = "resetkeys allchannels -@all +ping +multi +exec +slaveof +subscribe \
    +publish +info +role +config|rewrite +client|setname +client|kill +script|kill";

/// How a server differs from the ordinary one.
#[derive(Clone, Debug)]
pub struct ValkeyOptions {
    /// The name of its folder and its log; unique within the test bed.
    pub name: String,
    /// The server program.
    pub program: String,
    /// Lines for the configuration file. They come last and win over ours.
    pub extra: Vec<String>,
    /// Which set of versions; `None` for the one that the environment chooses.
    pub versions: Option<Versions>,
    /// How many bytes its data may take, where it is to have a small disk of its own.
    pub small_disk: Option<u64>,
}

impl ValkeyOptions {
    /// The ordinary server under a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            program: "valkey-server".into(),
            extra: Vec::new(),
            versions: None,
            small_disk: None,
        }
    }

    /// The same with one more line in its configuration file.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.extra.push(line.into());
        self
    }

    /// The same with another server program of this machine, such as `redis-server`.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = program.into();
        self.versions = Some(Versions::Host);
        self
    }
}

/// The users of a primary and its replicas. They share them, so that a replica can be promoted.
#[derive(Clone)]
pub struct ValkeyUsers {
    /// What the conductor and the outbox log in with, as user `conductor`.
    pub conductor: String,
    /// What tests log in with, as user `admin`, who may do everything.
    pub admin: String,
    replica: String,
    sentinel: String,
}

impl ValkeyUsers {
    /// Users with new passwords.
    pub fn fresh() -> Result<Self> {
        Ok(Self {
            conductor: fresh_password()?,
            admin: fresh_password()?,
            replica: fresh_password()?,
            sentinel: fresh_password()?,
        })
    }

    /// What Sentinel logs in with, as user `sentinel`.
    pub fn sentinel(&self) -> &str {
        &self.sentinel
    }

    /// The user `default` is off and has no password, so nobody is it; but the server loads its own
    /// file as that user, and EXEC asks for that user's rights again: without them a server that is
    /// started again has lost every transaction.
    fn lines(&self) -> String {
        format!(
            "user default off resetpass ~* &* +@all\n\
             user conductor on >{} {CONDUCTOR_RIGHTS}\n\
             user admin on >{} ~* &* +@all\n\
             user replica on >{} {REPLICA_RIGHTS}\n\
             user sentinel on >{} {SENTINEL_RIGHTS}\n\
             masteruser replica\nmasterauth {}\n",
            self.conductor, self.admin, self.replica, self.sentinel, self.replica
        )
    }
}

impl std::fmt::Debug for ValkeyUsers {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ValkeyUsers(<hidden>)")
    }
}

/// A private Valkey server.
#[derive(Debug)]
pub struct Valkey {
    process: Process,
    port: Port,
    users: ValkeyUsers,
    disk: Option<SmallDisk>,
}

impl Valkey {
    /// Starts a primary and waits until it answers.
    pub fn primary(folder: &Folder, options: &ValkeyOptions) -> Result<Self> {
        Self::primary_with(folder, options, &ValkeyUsers::fresh()?)
    }

    /// The same with users that other servers have too.
    pub fn primary_with(
        folder: &Folder,
        options: &ValkeyOptions,
        users: &ValkeyUsers,
    ) -> Result<Self> {
        Self::start(folder, options, users.clone(), None)
    }

    /// Starts a replica of a server and waits until it has its data and follows it.
    pub fn replica_of(folder: &Folder, primary: &Self, options: &ValkeyOptions) -> Result<Self> {
        let replica = Self::start(folder, options, primary.users.clone(), Some(primary.port()))?;
        replica.wait_following(READY_WITHIN)?;
        Ok(replica)
    }

    fn start(
        folder: &Folder,
        options: &ValkeyOptions,
        users: ValkeyUsers,
        primary: Option<u16>,
    ) -> Result<Self> {
        let port = Port::take()?;
        folder.subfolder(&options.name)?;
        let data = folder.subfolder(&format!("{}/data", options.name))?;
        let disk = options
            .small_disk
            .map(|bytes| SmallDisk::mount(&data, bytes));
        let disk = disk.transpose()?;
        let mut lines = format!(
            "bind 127.0.0.1\nport {}\ndaemonize no\ndir \"{}\"\nsave \"\"\n\
             appendonly yes\nappendfsync always\nno-appendfsync-on-rewrite no\nio-threads 1\n\
             maxmemory-policy noeviction\nrepl-backlog-size 64mb\nrepl-diskless-sync yes\n\
             repl-diskless-sync-delay 0\n",
            port.number(),
            data.display(),
        );
        lines.push_str(&users.lines());
        if let Some(primary) = primary {
            lines.push_str(&format!("replicaof 127.0.0.1 {primary}\n"));
        }
        for line in &options.extra {
            lines.push_str(line);
            lines.push('\n');
        }
        let config = folder.secret_file(&format!("{}/server.conf", options.name), &lines)?;
        let versions = Versions::or_chosen(options.versions.as_ref())?;
        let launch = Launch::new(&options.program).of(&versions).argument(config);
        let process = Process::start(folder, &options.name, launch)?;
        let server = Self {
            process,
            port,
            users,
            disk,
        };
        server.wait_ready(READY_WITHIN)?;
        Ok(server)
    }

    /// Its process, to be killed, paused and read.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its users and their passwords.
    pub fn users(&self) -> &ValkeyUsers {
        &self.users
    }

    /// A connection as `admin`, who may do everything.
    pub fn connection(&self) -> redis::RedisResult<redis::Connection> {
        self.connection_as("admin", &self.users.admin)
    }

    /// A connection as some user. A read or a write that takes more than a minute is an error.
    pub fn connection_as(
        &self,
        user: &str,
        password: &str,
    ) -> redis::RedisResult<redis::Connection> {
        let limit = Duration::from_secs(60);
        connect(self.address(), Some((user, password)), limit)
    }

    /// One command as `admin`, by its words; a refusal is an error.
    pub fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let answer = self
            .connection()
            .and_then(|mut connection| ask(&mut connection, words));
        answer.map_err(|error| self.answered(&error))
    }

    /// Kills it if it runs, starts it on the same folder and port, and waits until it answers.
    pub fn restart(&self) -> Result<()> {
        self.process.restart()?;
        self.wait_ready(READY_WITHIN)
    }

    /// Takes all that is left of its small disk; gives how much that was. A write that needs more
    /// than the four kilobytes which the last page of its file may have left then ends the server.
    pub fn fill_disk(&self) -> Result<u64> {
        self.small_disk()?.fill()
    }

    /// Gives back what [`Valkey::fill_disk`] took. A server that has ended is still to be started.
    pub fn free_disk(&self) -> Result<()> {
        self.small_disk()?.free()
    }

    fn small_disk(&self) -> Result<&SmallDisk> {
        self.disk.as_ref().ok_or_else(|| TestbedError::Answer {
            name: self.process.name().to_owned(),
            answer: "that it has no small disk; set small_disk in its options".into(),
        })
    }

    /// Waits until it answers and has loaded what is on its disk.
    pub fn wait_ready(&self, within: Duration) -> Result<()> {
        self.process.wait_for("answer to PING", within, || {
            self.look(|connection| ask::<String>(connection, &["PING"]))
                .map(drop)
        })
    }

    /// Waits until it is a replica that is in step with its primary.
    pub fn wait_following(&self, within: Duration) -> Result<()> {
        self.process
            .wait_for("replica in step with its primary", within, || {
                let role = self.look_at_role()?;
                if role.follows() {
                    Ok(())
                } else {
                    Err(format!("it is {role:?}"))
                }
            })
    }

    /// The part that it plays now.
    pub fn role(&self) -> Result<Role> {
        self.look_at_role().map_err(|answer| TestbedError::Answer {
            name: self.process.name().to_owned(),
            answer,
        })
    }

    pub(super) fn look_at_role(&self) -> std::result::Result<Role, String> {
        let answer: redis::Value = self.look(|connection| ask(connection, &["ROLE"]))?;
        Role::read(&answer)
    }

    /// Waits until a write is on this primary's disk and on the disks of so many replicas, which
    /// after a replica's first synchronisation takes until it has written its own file.
    pub fn wait_durable(&self, replicas: u32, within: Duration) -> Result<()> {
        let awaited = format!("write on {replicas} replicas' disks");
        self.process
            .wait_for(&awaited, within, || self.look_durable(replicas))
    }

    pub(super) fn look_durable(&self, replicas: u32) -> std::result::Result<(), String> {
        let wanted = replicas.to_string();
        let reached: (u32, u32) = self.look(|connection| {
            ask::<redis::Value>(connection, &["SET", "testbed:probe", "1"])?;
            ask::<redis::Value>(connection, &["DEL", "testbed:probe"])?;
            ask::<redis::Value>(connection, &["WAIT", &wanted, "500"])?;
            ask(connection, &["WAITAOF", "1", &wanted, "500"])
        })?;
        if reached.0 >= 1 && reached.1 >= replicas {
            Ok(())
        } else {
            Err(format!("WAITAOF says {reached:?}"))
        }
    }

    fn look<T>(
        &self,
        question: impl FnOnce(&mut redis::Connection) -> redis::RedisResult<T>,
    ) -> std::result::Result<T, String> {
        let login = Some(("admin", self.users.admin.as_str()));
        connect(self.address(), login, LOOK_WITHIN)
            .and_then(|mut connection| question(&mut connection))
            .map_err(|error| error.to_string())
    }

    fn answered(&self, error: &redis::RedisError) -> TestbedError {
        TestbedError::Answer {
            name: self.process.name().to_owned(),
            answer: error.to_string(),
        }
    }
}

/// Connects with a bound on every wait.
pub(super) fn connect(
    address: SocketAddr,
    login: Option<(&str, &str)>,
    within: Duration,
) -> redis::RedisResult<redis::Connection> {
    let mut settings = redis::RedisConnectionInfo::default();
    if let Some((user, password)) = login {
        settings = settings.set_username(user).set_password(password);
    }
    let place = redis::ConnectionAddr::Tcp(address.ip().to_string(), address.port());
    let info = redis::IntoConnectionInfo::into_connection_info(place)?.set_redis_settings(settings);
    let connection = redis::Client::open(info)?.get_connection_with_timeout(within)?;
    connection.set_read_timeout(Some(within))?;
    connection.set_write_timeout(Some(within))?;
    Ok(connection)
}

/// Sends one command by its words.
pub(super) fn ask<T: redis::FromRedisValue>(
    connection: &mut redis::Connection,
    words: &[&str],
) -> redis::RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query(connection)
}
