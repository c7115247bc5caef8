//! A private RabbitMQ node with a user of its own.
//!
//! The wrapper in `/usr/sbin` changes user; the scripts behind it do not, so those are run. The
//! node gets its own home with its own cookie, its own ports on the loopback alone, and its own
//! epmd, which a node would otherwise start in the background and leave behind: here it is an
//! ordinary process of the test bed. The start script replaces itself by the virtual machine, as it
//! does under systemd, so that signals reach the broker and nothing in between.
//!
//! Nodes that are to be one cluster (see [`super::RabbitCluster`]) share the cookie, the epmd and
//! the user's password, and join the first of them as they start.

use super::amqp;
use super::erlang;
use super::error::{Result, TestbedError, file};
use super::folder::{Folder, fresh_password};
use super::launch::Launch;
use super::ports::Port;
use super::process::Process;
use super::versions::Versions;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the distribution keeps the scripts that change no user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
/// The broker's user for the conductor, the outbox and the tools.
pub const USER: &str = "conductor";
/// When the log that all quorum queues share begins a new file. Until then its entries are in memory
/// too, at about one and a half times their size, and the broker's own limit is 512 MiB.
const LOG_BYTES: u32 = 64 << 20;
/// A node takes about five seconds on an idle machine and several times that on a busy one.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long one look at the broker may take. A log-in that is refused takes a second.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// How often, and with which pause, a node looks for the one that it is to join: as long as that
/// one may take to start.
const JOIN_TRIES: u32 = 600;
const JOIN_PAUSE_MS: u32 = 200;
/// What a graceful end of the node may take.
const STOP_WITHIN: Duration = Duration::from_secs(60);

/// How a node differs from the ordinary one.
#[derive(Clone, Debug)]
pub struct RabbitOptions {
    /// The name of its folder and its log; unique within the test bed.
    pub name: String,
    /// Plugins to enable, such as `rabbitmq_management`. Each costs start time.
    pub plugins: Vec<String>,
    /// Lines for `rabbitmq.conf`, such as a low memory limit. They come last and win over ours.
    pub extra: Vec<String>,
    /// Whether it is a node of several; [`super::RabbitCluster`] says so by itself.
    pub clustered: bool,
    /// Which set of versions; `None` for the one that the environment chooses.
    pub versions: Option<Versions>,
}

impl Default for RabbitOptions {
    fn default() -> Self {
        Self {
            name: "rabbit".into(),
            plugins: Vec::new(),
            extra: Vec::new(),
            clustered: false,
            versions: None,
        }
    }
}

/// A private RabbitMQ node.
#[derive(Debug)]
pub struct Rabbit {
    // The node goes before its epmd.
    process: Process,
    shared: Arc<Shared>,
    port: Port,
    distribution: Port,
    password_file: PathBuf,
    name: String,
}

/// What all nodes of a broker have in common.
#[derive(Debug)]
struct Shared {
    epmd: Process,
    epmd_port: Port,
    versions: Versions,
    cookie: String,
    password: String,
}

impl Shared {
    fn start(folder: &Folder, options: &RabbitOptions) -> Result<Arc<Self>> {
        let (name, versions) = (
            &options.name,
            Versions::or_chosen(options.versions.as_ref())?,
        );
        let epmd_port = Port::take()?;
        let launch = Launch::new("epmd")
            .of(&versions)
            .argument("-address")
            .argument("127.0.0.1")
            .argument("-port")
            .argument(epmd_port.number().to_string());
        Ok(Arc::new(Self {
            epmd: Process::start(folder, &format!("{name}-epmd"), launch)?,
            epmd_port,
            versions,
            cookie: fresh_password()?,
            password: fresh_password()?,
        }))
    }
}

impl Rabbit {
    /// Starts a node and waits until its user can log in.
    pub fn start(folder: &Folder, options: &RabbitOptions) -> Result<Self> {
        let rabbit = Self::begin(folder, options)?;
        rabbit.wait_ready(READY_WITHIN)?;
        Ok(rabbit)
    }

    /// Starts a node and does not wait, so that other servers can start beside it.
    pub fn begin(folder: &Folder, options: &RabbitOptions) -> Result<Self> {
        let shared = Shared::start(folder, options)?;
        Self::begin_with(folder, options, shared, "")
    }

    /// The same for a node that joins the cluster of another one, as soon as that one is up.
    pub(super) fn begin_joining(&self, folder: &Folder, options: &RabbitOptions) -> Result<Self> {
        let joining = format!(
            "cluster_formation.peer_discovery_backend = classic_config\n\
             cluster_formation.classic_config.nodes.1 = {}\n\
             cluster_formation.discovery_retry_limit = {JOIN_TRIES}\n\
             cluster_formation.discovery_retry_interval = {JOIN_PAUSE_MS}\n",
            self.node_name()
        );
        Self::begin_with(folder, options, Arc::clone(&self.shared), &joining)
    }

    fn begin_with(
        folder: &Folder,
        options: &RabbitOptions,
        shared: Arc<Shared>,
        joining: &str,
    ) -> Result<Self> {
        let (port, distribution) = (Port::take()?, Port::take()?);
        let name = &options.name;
        let home = folder.subfolder(name)?;
        let password_file = folder.secret_file(&format!("{name}/password"), &shared.password)?;
        let cookie = folder.secret_file(&format!("{name}/.erlang.cookie"), &shared.cookie)?;
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))
            .map_err(file("protect", &cookie))?;
        let settings = settings(options, port.number(), &shared.password, joining);
        folder.secret_file(&format!("{name}/rabbitmq.conf"), &settings)?;
        folder.secret_file(&format!("{name}/empty.conf"), "")?;
        folder.secret_file(
            &format!("{name}/enabled_plugins"),
            &plugins(&options.plugins),
        )?;
        let epmd = shared.epmd_port.number();
        let launch = node(&home, [port.number(), distribution.number(), epmd]);
        let process = Process::start(folder, name, launch.of(&shared.versions))?;
        Ok(Self {
            process,
            shared,
            port,
            distribution,
            password_file,
            name: name.clone(),
        })
    }

    /// Waits until the broker lets its user in.
    pub fn wait_ready(&self, within: Duration) -> Result<()> {
        self.process.wait_for("log-in to the broker", within, || {
            self.log_in(USER, self.password())
                .map_err(|error| error.to_string())
        })
    }

    /// Logs in as some user and leaves again. The kind of the error is `PermissionDenied` when the
    /// broker is there and refuses.
    pub fn log_in(&self, user: &str, password: &str) -> std::io::Result<()> {
        amqp::log_in(self.address(), user, password, LOOK_WITHIN)
    }

    /// Its process, to be killed, paused and read.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its AMQP address.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Its address for a client's settings, without user and password.
    pub fn uri(&self) -> String {
        uri(self.address())
    }

    /// Its address with user and password, for a client that takes nothing else.
    pub fn uri_with_password(&self) -> String {
        format!(
            "amqp://{USER}:{}@{}/%2f?heartbeat=10",
            self.password(),
            self.address()
        )
    }

    /// The user that may do everything with it.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// That user's password.
    pub fn password(&self) -> &str {
        &self.shared.password
    }

    /// The file that holds the password and nothing else.
    pub fn password_file(&self) -> &Path {
        &self.password_file
    }

    /// The name by which the nodes of a cluster know each other.
    pub fn node_name(&self) -> String {
        node_name(self.port.number())
    }

    /// Kills the node if it runs, starts it on the same folder and ports, and waits for it.
    pub fn restart(&self) -> Result<()> {
        self.begin_restart()?;
        self.wait_ready(READY_WITHIN)
    }

    /// The same without waiting. Of a cluster whose nodes have all ended, the first to come back
    /// may wait for another one, so they are all begun before one is waited for.
    pub fn begin_restart(&self) -> Result<()> {
        let epmd = &self.shared.epmd;
        if !epmd.is_running() {
            epmd.restart()?;
        }
        self.process.restart()
    }

    /// Ends the node in good order.
    pub fn stop(&self) -> Result<()> {
        self.process.terminate(STOP_WITHIN).map(drop)
    }

    /// Runs `rabbitmqctl` on this node and gives what it printed. Takes a second or two.
    pub fn control(&self, arguments: &[&str]) -> Result<String> {
        let program = format!("{SCRIPTS}/rabbitmqctl");
        let output = self
            .process
            .launch()
            .beside(&program)
            .command(self.process.folder())?
            .arg("--quiet")
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|source| TestbedError::Program { program, source })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = [output.stdout, output.stderr].concat();
        let answer = String::from_utf8_lossy(&said).trim().to_owned();
        Err(TestbedError::Answer {
            name: format!("rabbitmqctl of {}", self.name),
            answer,
        })
    }

    /// Evaluates an Erlang expression on this node and gives what it printed with `io:format`.
    /// Takes milliseconds; a paused node is given up after three seconds.
    pub fn evaluate(&self, expression: &str) -> Result<String> {
        self.ask(expression).map_err(|answer| TestbedError::Answer {
            name: self.name.clone(),
            answer,
        })
    }

    pub(super) fn ask(&self, expression: &str) -> std::result::Result<String, String> {
        let (node, folder) = (self.process.launch(), self.process.folder());
        erlang::evaluate(&node, folder, self.distribution.address(), expression)
    }
}

/// A broker's address for a client's settings: no user, no password, no parameters.
pub fn uri(address: SocketAddr) -> String {
    format!("amqp://{address}/%2f")
}

fn settings(options: &RabbitOptions, port: u16, password: &str, joining: &str) -> String {
    // A node of a cluster that finds itself alone stops serving, as it must where money is moved;
    // a node that is alone by design has nobody to miss.
    let partitions = if options.clustered {
        "pause_minority"
    } else {
        "ignore"
    };
    let mut lines = format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\n\
         default_user = {USER}\ndefault_pass = {password}\n\
         log.console = true\nlog.console.level = info\nlog.file = false\n\
         disk_free_limit.absolute = 50MB\n\
         raft.wal_max_size_bytes = {LOG_BYTES}\n\
         cluster_partition_handling = {partitions}\n{joining}"
    );
    for line in &options.extra {
        lines.push_str(line);
        lines.push('\n');
    }
    lines
}

/// The file of enabled plugins is an Erlang term.
fn plugins(names: &[String]) -> String {
    format!("[{}].\n", names.join(","))
}

fn node_name(port: u16) -> String {
    format!("conductor-{port}@localhost")
}

fn node(home: &Path, [port, distribution, epmd]: [u16; 3]) -> Launch {
    let here = |name: &str| home.join(name).into_os_string();
    Launch::new(format!("{SCRIPTS}/rabbitmq-server"))
        .variable("HOME", home)
        .variable("RUNNING_UNDER_SYSTEMD", "true")
        .variable("ERL_EPMD_PORT", epmd.to_string())
        .variable("ERL_EPMD_ADDRESS", "127.0.0.1")
        .variable("RABBITMQ_NODENAME", node_name(port))
        .variable("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .variable("RABBITMQ_NODE_PORT", port.to_string())
        .variable("RABBITMQ_DIST_PORT", distribution.to_string())
        .variable("RABBITMQ_CONFIG_FILE", here("rabbitmq.conf"))
        .variable("RABBITMQ_ADVANCED_CONFIG_FILE", here("advanced.config"))
        .variable("RABBITMQ_CONF_ENV_FILE", here("empty.conf"))
        .variable("RABBITMQ_ENABLED_PLUGINS_FILE", here("enabled_plugins"))
        .variable("RABBITMQ_MNESIA_BASE", here("data"))
        .variable("RABBITMQ_LOG_BASE", here("log"))
        .variable("RABBITMQ_LOGS", "-")
        .variable("RABBITMQ_PID_FILE", here("pid"))
        .variable("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG)
}

/// The node's distribution listens on the loopback alone. The schedulers of the virtual machine
/// do not spin while they wait: the cores belong to those who are being measured.
const ERLANG: &str =
    "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none";
