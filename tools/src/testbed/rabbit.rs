//! A private RabbitMQ node with a user of its own.
//!
//! The wrapper in `/usr/sbin` changes user; the scripts behind it do not, so those are run. The
//! node gets its own home with its own cookie, its own ports on the loopback alone, and its own
//! epmd, which a node would otherwise start in the background and leave behind: here it is an
//! ordinary process of the test bed. The start script replaces itself by the virtual machine, as it
//! does under systemd, so that signals reach the broker and nothing in between.

use super::amqp;
use super::error::{Result, TestbedError, file};
use super::folder::{Folder, fresh_password};
use super::ports::Port;
use super::process::{Launch, Process};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// Where the distribution keeps the scripts that change no user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
/// The broker's user for the conductor, the outbox and the tools.
pub const USER: &str = "conductor";
/// A node takes about five seconds on an idle machine and several times that on a busy one.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long one look at the broker may take. A log-in that is refused takes a second.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
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
}

impl Default for RabbitOptions {
    fn default() -> Self {
        Self {
            name: "rabbit".into(),
            plugins: Vec::new(),
            extra: Vec::new(),
        }
    }
}

/// A private RabbitMQ node.
#[derive(Debug)]
pub struct Rabbit {
    // The node goes before its epmd.
    process: Process,
    epmd: Process,
    port: Port,
    _distribution: Port,
    _epmd_port: Port,
    password: String,
    password_file: PathBuf,
    commands: Launch,
    name: String,
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
        let (port, distribution, epmd_port) = (Port::take()?, Port::take()?, Port::take()?);
        let name = &options.name;
        let home = folder.subfolder(name)?;
        let password = fresh_password()?;
        let password_file = folder.secret_file(&format!("{name}/password"), &password)?;
        let cookie = folder.secret_file(&format!("{name}/.erlang.cookie"), &fresh_password()?)?;
        fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400))
            .map_err(file("protect", &cookie))?;
        let settings = settings(options, port.number(), &password);
        folder.secret_file(&format!("{name}/rabbitmq.conf"), &settings)?;
        folder.secret_file(&format!("{name}/empty.conf"), "")?;
        folder.secret_file(
            &format!("{name}/enabled_plugins"),
            &plugins(&options.plugins),
        )?;
        let ports = [port.number(), distribution.number(), epmd_port.number()];
        let launch = node(&home, ports);
        let epmd = Launch::new("epmd")
            .argument("-address")
            .argument("127.0.0.1")
            .argument("-port")
            .argument(epmd_port.number().to_string());
        let epmd = Process::start(folder, &format!("{name}-epmd"), epmd)?;
        let process = Process::start(folder, name, launch.clone())?;
        Ok(Self {
            process,
            epmd,
            port,
            _distribution: distribution,
            _epmd_port: epmd_port,
            password,
            password_file,
            commands: launch,
            name: name.clone(),
        })
    }

    /// Waits until the broker lets its user in.
    pub fn wait_ready(&self, within: Duration) -> Result<()> {
        self.process.wait_for("log-in to the broker", within, || {
            self.log_in(USER, &self.password)
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
            self.password,
            self.address()
        )
    }

    /// The user that may do everything with it.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// That user's password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The file that holds the password and nothing else.
    pub fn password_file(&self) -> &std::path::Path {
        &self.password_file
    }

    /// Kills the node if it runs, starts it on the same folder and ports, and waits for it.
    pub fn restart(&self) -> Result<()> {
        if !self.epmd.is_running() {
            self.epmd.restart()?;
        }
        self.process.restart()?;
        self.wait_ready(READY_WITHIN)
    }

    /// Ends the node in good order.
    pub fn stop(&self) -> Result<()> {
        self.process.terminate(STOP_WITHIN).map(drop)
    }

    /// Runs `rabbitmqctl` on this node and gives what it printed. Takes a second or two.
    pub fn control(&self, arguments: &[&str]) -> Result<String> {
        let program = format!("{SCRIPTS}/rabbitmqctl");
        let output = self
            .commands
            .command(&program)
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
}

/// A broker's address for a client's settings: no user, no password, no parameters.
pub fn uri(address: SocketAddr) -> String {
    format!("amqp://{address}/%2f")
}

fn settings(options: &RabbitOptions, port: u16, password: &str) -> String {
    let mut lines = format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\n\
         default_user = {USER}\ndefault_pass = {password}\n\
         log.console = true\nlog.console.level = info\nlog.file = false\n\
         disk_free_limit.absolute = 50MB\n\
         cluster_partition_handling = ignore\n"
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

fn node(home: &std::path::Path, [port, distribution, epmd]: [u16; 3]) -> Launch {
    let here = |name: &str| home.join(name).into_os_string();
    Launch::new(format!("{SCRIPTS}/rabbitmq-server"))
        .variable("HOME", home)
        .variable("RUNNING_UNDER_SYSTEMD", "true")
        .variable("ERL_EPMD_PORT", epmd.to_string())
        .variable("ERL_EPMD_ADDRESS", "127.0.0.1")
        .variable("RABBITMQ_NODENAME", format!("conductor-{port}@localhost"))
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
