//! A private broker of one or several RabbitMQ nodes.
//!
//! All nodes start at once; the others join the first as soon as it is up, and are waited for until
//! each of them sees all. What is asked of the broker is asked of a node that can answer: one that
//! runs and is not paused.
//!
//! Nodes are counted from zero, in the order in which they were started. Their state is asked in the
//! broker's own language (see [`Rabbit::evaluate`]), which takes milliseconds, so that a test can
//! kill the leader of a queue at the moment it has looked for.

use super::error::{Result, TestbedError};
use super::folder::Folder;
use super::rabbit::{Rabbit, RabbitOptions};
use super::wait::wait_for;
use std::net::SocketAddr;
use std::time::Duration;

/// A broker of one node or a cluster of several.
#[derive(Debug)]
pub struct RabbitCluster {
    nodes: Vec<Rabbit>,
}

/// Where a quorum queue lives. Nodes are numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Its name.
    pub name: String,
    /// The node that leads it, if one does.
    pub leader: Option<usize>,
    /// The nodes that hold it.
    pub members: Vec<usize>,
    /// Those of them that are there.
    pub online: Vec<usize>,
}

/// How long a memory alarm may take to be seen by every node.
const ALARM_WITHIN: Duration = Duration::from_secs(30);
/// Nodes take several times the five seconds of an idle machine on a busy one.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// The nodes that a node counts as running.
const RUNNING: &str = "case erlang:function_exported(rabbit_nodes, list_running, 0) of \
    true -> rabbit_nodes:list_running(); false -> rabbit_nodes:all_running() end";
/// One line a quorum queue: its name, its leader, its members, those online.
const QUEUES: &str = "Told = fun(Nodes) -> \
        lists:join(\",\", [atom_to_list(Node) || Node <- Nodes]) end, \
    [begin {resource, _, queue, Name} = amqqueue:get_name(Queue), \
        Found = rabbit_quorum_queue:info(Queue, [leader, members, online]), \
        [Leader, Members, Online] = \
            [proplists:get_value(Key, Found) || Key <- [leader, members, online]], \
        io:format(\"~ts\\t~s\\t~s\\t~s~n\", [Name, Leader, Told(Members), Told(Online)]) end \
        || Queue <- rabbit_amqqueue:list(), amqqueue:get_type(Queue) =:= rabbit_quorum_queue]";

/// Asks a node how many nodes it counts as running.
fn count_running() -> String {
    format!("io:format(\"~b\", [length({RUNNING})])")
}

impl RabbitCluster {
    /// Starts so many nodes and waits until they are one broker.
    pub fn start(folder: &Folder, options: &RabbitOptions, count: usize) -> Result<Self> {
        let cluster = Self::begin(folder, options, count)?;
        cluster.wait_formed(READY_WITHIN)?;
        Ok(cluster)
    }

    /// Starts so many nodes and does not wait. The first has the name of the options; the others
    /// have a number behind it.
    pub fn begin(folder: &Folder, options: &RabbitOptions, count: usize) -> Result<Self> {
        let own = RabbitOptions {
            clustered: count > 1,
            ..options.clone()
        };
        let mut nodes = vec![Rabbit::begin(folder, &own)?];
        for number in 2..=count {
            let own = RabbitOptions {
                name: format!("{}-{number}", options.name),
                ..own.clone()
            };
            nodes.push(nodes[0].begin_joining(folder, &own)?);
        }
        Ok(Self { nodes })
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Rabbit] {
        &self.nodes
    }

    /// One of its nodes, to be killed, paused and brought back.
    pub fn node(&self, number: usize) -> &Rabbit {
        &self.nodes[number]
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The AMQP addresses of all nodes.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Rabbit::address).collect()
    }

    /// Waits until nodes that were just begun are one broker. On a busy machine RabbitMQ 4 can give
    /// up its question to the first node and start a node alone; that one is empty, and is told to
    /// join.
    pub fn wait_formed(&self, within: Duration) -> Result<()> {
        for node in &self.nodes {
            node.wait_ready(within)?;
        }
        let question = count_running();
        for node in self.nodes.iter().skip(1) {
            if node.evaluate(&question)? == "1" {
                let first = self.nodes[0].node_name();
                for words in [
                    &["stop_app"][..],
                    &["reset"],
                    &["join_cluster", &first],
                    &["start_app"],
                ] {
                    node.control(words)?;
                }
            }
        }
        self.wait_members(within)
    }

    /// Waits until every node lets its user in and counts all others as running.
    pub fn wait_members(&self, within: Duration) -> Result<()> {
        for node in &self.nodes {
            node.wait_ready(within)?;
        }
        let question = count_running();
        let all = self.count().to_string();
        for node in &self.nodes {
            node.process().wait_for("view of all nodes", within, || {
                let seen = node.ask(&question)?;
                if seen == all {
                    Ok(())
                } else {
                    Err(format!("it sees {seen} of {all} nodes"))
                }
            })?;
        }
        Ok(())
    }

    /// Starts every node that has ended, all at once, and waits until they are one broker again.
    pub fn restart_all(&self) -> Result<()> {
        for node in &self.nodes {
            if !node.process().is_running() {
                node.begin_restart()?;
            }
        }
        self.wait_members(READY_WITHIN)
    }

    /// Runs `rabbitmqctl` on a node that can answer. Takes a second or two.
    pub fn control(&self, arguments: &[&str]) -> Result<String> {
        self.able().next().ok_or_else(nobody)?.control(arguments)
    }

    /// Evaluates an Erlang expression on a node that can answer.
    pub fn evaluate(&self, expression: &str) -> Result<String> {
        self.ask(expression).map_err(answered)
    }

    /// All quorum queues.
    pub fn queues(&self) -> Result<Vec<QueueState>> {
        self.look_at_queues().map_err(answered)
    }

    /// One quorum queue.
    pub fn queue(&self, name: &str) -> Result<QueueState> {
        self.look_at(name).map_err(answered)
    }

    /// The node that leads a quorum queue now.
    pub fn leader(&self, queue: &str) -> Result<usize> {
        self.look_for_leader(queue).map_err(answered)
    }

    /// Waits until a quorum queue has a leader.
    pub fn wait_leader(&self, queue: &str, within: Duration) -> Result<usize> {
        wait_for(&format!("leader of {queue}"), within, || {
            self.look_for_leader(queue)
        })
    }

    /// Waits until a quorum queue has a leader, all its members are there, and each of them has
    /// committed what the leader had committed at the first look.
    pub fn wait_in_step(&self, queue: &str, within: Duration) -> Result<()> {
        let mut wanted = None;
        wait_for(&format!("all members of {queue} in step"), within, || {
            let state = self.look_at(queue)?;
            let whole = state.online.len() == state.members.len() && state.leader.is_some();
            if !whole {
                return Err(format!("{state:?}"));
            }
            let commits = self.commits(queue)?;
            let highest = commits.iter().copied().max().unwrap_or_default();
            let wanted = *wanted.get_or_insert(highest);
            if commits.len() == state.members.len() && commits.iter().all(|own| *own >= wanted) {
                Ok(())
            } else {
                Err(format!("members have committed {commits:?} of {wanted}"))
            }
        })
    }

    /// Closes every AMQP connection of every node, with a reason that the clients are told.
    pub fn close_all_connections(&self, reason: &str) -> Result<()> {
        self.evaluate(&format!(
            "[rabbit_networking:close_connection(Connection, {reason:?}) \
              || Connection <- rabbit_networking:connections()]"
        ))
        .map(drop)
    }

    /// Makes a node find that it has no memory left, which blocks everybody who publishes to any
    /// node; returns when every node that can answer knows.
    pub fn raise_memory_alarm(&self, number: usize) -> Result<()> {
        self.nodes[number]
            .evaluate("ok = vm_memory_monitor:set_vm_memory_high_watermark({absolute, 1000})")?;
        self.wait_alarm(number, true)
    }

    /// Gives a node the memory limit of its settings back; returns when the alarm is gone.
    pub fn lift_memory_alarm(&self, number: usize) -> Result<()> {
        self.nodes[number].evaluate(
            "{ok, Limit} = application:get_env(rabbit, vm_memory_high_watermark), \
             ok = vm_memory_monitor:set_vm_memory_high_watermark(Limit)",
        )?;
        self.wait_alarm(number, false)
    }

    fn wait_alarm(&self, number: usize, wanted: bool) -> Result<()> {
        let question = format!(
            "io:format(\"~p\", [lists:any(fun({{{{resource_limit, memory, Node}}, _}}) -> \
                Node =:= '{}'; (_) -> false end, rabbit_alarm:get_alarms())])",
            self.nodes[number].node_name()
        );
        let awaited = if wanted {
            "memory alarm"
        } else {
            "end of the memory alarm"
        };
        wait_for(awaited, ALARM_WITHIN, || {
            let seen: Vec<String> = self
                .able()
                .map(|node| node.ask(&question))
                .collect::<std::result::Result<_, _>>()?;
            if seen.iter().all(|one| *one == wanted.to_string()) {
                Ok(())
            } else {
                Err(format!("the nodes say {seen:?}"))
            }
        })
    }

    /// The nodes that run and are not paused.
    fn able(&self) -> impl Iterator<Item = &Rabbit> {
        self.nodes
            .iter()
            .filter(|node| node.process().is_running() && !node.process().is_paused())
    }

    /// Asks one after the other until one answers: a node that was only just started does not.
    fn ask(&self, expression: &str) -> std::result::Result<String, String> {
        let mut refusals = Vec::new();
        for node in self.able() {
            match node.ask(expression) {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusals.push(format!("{}: {refusal}", node.process().name())),
            }
        }
        Err(format!("no node answers: {}", refusals.join("; ")))
    }

    fn look_at_queues(&self) -> std::result::Result<Vec<QueueState>, String> {
        let answer = self.ask(QUEUES)?;
        answer.lines().map(|line| self.read_queue(line)).collect()
    }

    fn look_at(&self, name: &str) -> std::result::Result<QueueState, String> {
        let mut all = self.look_at_queues()?.into_iter();
        all.find(|queue| queue.name == name)
            .ok_or_else(|| format!("there is no quorum queue {name}"))
    }

    fn look_for_leader(&self, queue: &str) -> std::result::Result<usize, String> {
        let state = self.look_at(queue)?;
        state
            .leader
            .ok_or_else(|| format!("nobody leads: {state:?}"))
    }

    fn read_queue(&self, line: &str) -> std::result::Result<QueueState, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, leader, members, online] = fields[..] else {
            return Err(format!("{line:?} describes no queue"));
        };
        let numbers = |list: &str| {
            list.split(',')
                .filter_map(|name| self.number(name))
                .collect()
        };
        Ok(QueueState {
            name: name.to_owned(),
            leader: self.number(leader),
            members: numbers(members),
            online: numbers(online),
        })
    }

    fn number(&self, node_name: &str) -> Option<usize> {
        self.nodes
            .iter()
            .position(|node| node.node_name() == node_name)
    }

    /// How far each member of a queue that can say so has committed.
    fn commits(&self, queue: &str) -> std::result::Result<Vec<u64>, String> {
        let question = format!(
            "[io:format(\"~p~n\", [proplists:get_value(<<\"Commit Index\">>, Member)]) \
              || Member <- rabbit_quorum_queue:status(<<\"/\">>, <<{queue:?}>>)]"
        );
        let answer = self.ask(&question)?;
        Ok(answer
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect())
    }
}

fn nobody() -> TestbedError {
    answered("no node runs that could answer".into())
}

fn answered(answer: String) -> TestbedError {
    TestbedError::Answer {
        name: "the broker".into(),
        answer,
    }
}
