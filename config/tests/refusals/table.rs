//! Every way to be refused at boot: what was set, and the one line that says what to change.
//!
//! The lines are kept whole, so that whoever changes one sees what an operator will read.

/// What was set, and the line it must give. `{dir}` stands for a folder of the test.
pub(crate) struct Refusal {
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) file: &'static str,
    pub(crate) cores: &'static [usize],
    pub(crate) line: &'static str,
}

const FOUR: &[usize] = &[0, 1, 2, 3];

const fn environment(
    environment: &'static [(&'static str, &'static str)],
    line: &'static str,
) -> Refusal {
    Refusal {
        environment,
        file: "",
        cores: FOUR,
        line,
    }
}

const fn file(file: &'static str, line: &'static str) -> Refusal {
    Refusal {
        environment: &[],
        file,
        cores: FOUR,
        line,
    }
}

const TOPOLOGY: &[Refusal] = &[
    environment(
        &[
            ("MATCHING_PARTITION_COUNT", "2"),
            ("MATCHING_PARTITION", "2"),
        ],
        "partition 2 does not exist: with a partition count of 2 they are 0 to 1; correct \
         [topology] partitions (MATCHING_PARTITION) or [topology] partition_count \
         (MATCHING_PARTITION_COUNT)",
    ),
    environment(
        &[
            ("MATCHING_PARTITION_COUNT", "4"),
            ("MATCHING_PARTITION", "1,3,1"),
        ],
        "[topology] partitions (MATCHING_PARTITION) names partition 1 twice; name each once",
    ),
    file(
        "[topology]\npartitions = []",
        "[topology] partitions (MATCHING_PARTITION) is an empty list; name at least one partition",
    ),
    environment(
        &[("MATCHING_PARTITION_COUNT", "0")],
        "[topology] partition_count (MATCHING_PARTITION_COUNT) is 0; choose a number from 1 to \
         1024",
    ),
    environment(
        &[("MATCHING_PARTITION", "0,one")],
        "[topology] partitions (MATCHING_PARTITION) is \"one\"; write a whole number in digits",
    ),
    environment(
        &[("MATCHING_PREFETCH", "0")],
        "[topology] prefetch (MATCHING_PREFETCH) is 0; choose a number from 1 to 4096",
    ),
    file(
        "[topology]\nprefetch = 5000",
        "[topology] prefetch (MATCHING_PREFETCH) is 5000; choose a number from 1 to 4096",
    ),
];

const NAMES: &[Refusal] = &[
    environment(
        &[("REDIS_CLUSTER_NODES", "a:6379,b:6379")],
        "REDIS_CLUSTER_NODES is set, and a cell does not run on Valkey Cluster; unset it and give \
         each partition a primary with replicas, by REDIS_SENTINEL_HOSTS or by REDIS_HOST",
    ),
    environment(
        &[("REDIS_CLUSTER_NODES", "")],
        "REDIS_CLUSTER_NODES is set, and a cell does not run on Valkey Cluster; unset it and give \
         each partition a primary with replicas, by REDIS_SENTINEL_HOSTS or by REDIS_HOST",
    ),
    environment(
        &[("MATCHING_PREFECTH", "64")],
        "MATCHING_PREFECTH is not a setting; did you mean MATCHING_PREFETCH? Correct the name or \
         unset it",
    ),
    environment(
        &[("REDIS_SENTINELS", "a:26379")],
        "REDIS_SENTINELS is not a setting; did you mean REDIS_SENTINEL_HOSTS? Correct the name or \
         unset it",
    ),
    environment(
        &[("REDIS_PASSWORD", "")],
        "REDIS_PASSWORD is set but empty; give it a value or unset it",
    ),
    file(
        "[topology]\nprefecth = 64",
        "{dir}/conductor.toml line 2: unknown key `prefecth`, expected one of \
         `partition_count`, `partitions`, `prefetch`; correct or remove it",
    ),
    file(
        "[admin]\naddress = \"127.0.0.1:9601\"\n[tls]\n",
        "{dir}/conductor.toml line 3: unknown key `tls`, expected one of `topology`, `broker`, \
         `store`, `sentinel`, `durability`, `cores`, `group`, `results`, `events`, `watchdog`, \
         `admin`, `outbox`, `partition`, `pair`; correct or remove it",
    ),
    file(
        "[topology]\nprefetch = \"64\"",
        "{dir}/conductor.toml line 2: invalid type: string \"64\", expected a whole number",
    ),
    environment(
        &[("CONDUCTOR_CONFIG", "{dir}/absent.toml")],
        "cannot read the settings file {dir}/absent.toml: No such file or directory (os error 2); \
         correct the path or its permissions",
    ),
];

const STORES: &[Refusal] = &[
    environment(
        &[("REDIS_SENTINEL_HOSTS", "a:26379")],
        "[sentinel] hosts (REDIS_SENTINEL_HOSTS) is set without [sentinel] name \
         (REDIS_SENTINEL_NAME); set both or neither",
    ),
    environment(
        &[("REDIS_SENTINEL_NAME", "matching-p{partition}")],
        "[sentinel] name (REDIS_SENTINEL_NAME) is set without [sentinel] hosts \
         (REDIS_SENTINEL_HOSTS); set both or neither",
    ),
    environment(
        &[
            ("MATCHING_PARTITION_COUNT", "2"),
            ("MATCHING_PARTITION", "0,1"),
            ("REDIS_SENTINEL_HOSTS", "a:26379"),
            ("REDIS_SENTINEL_NAME", "matching"),
        ],
        "[sentinel] name (REDIS_SENTINEL_NAME) is \"matching\" for several partitions; put \
         {partition} into it, for example matching-p{partition}",
    ),
    environment(
        &[
            ("REDIS_SENTINEL_HOSTS", "a:26379,b"),
            ("REDIS_SENTINEL_NAME", "matching-p0"),
        ],
        "[sentinel] hosts (REDIS_SENTINEL_HOSTS) holds \"b\"; write each Sentinel as host:port, an \
         IPv6 address in brackets",
    ),
    environment(
        &[
            ("REDIS_HOST", "valkey"),
            ("REDIS_SENTINEL_HOSTS", "a:26379"),
            ("REDIS_SENTINEL_NAME", "matching-p0"),
        ],
        "[store] host (REDIS_HOST) or its port is set together with a Sentinel setting; keep \
         [store] host (REDIS_HOST) or [sentinel] hosts (REDIS_SENTINEL_HOSTS) and [sentinel] name \
         (REDIS_SENTINEL_NAME)",
    ),
    Refusal {
        environment: &[
            ("REDIS_SENTINEL_HOSTS", "a:26379"),
            ("REDIS_SENTINEL_NAME", "matching-p{partition}"),
        ],
        file: "[[partition]]\nnumber = 0\nhost = \"valkey-p0\"",
        cores: FOUR,
        line: "partition 0 has a [[partition]] server of its own and [sentinel] hosts \
               (REDIS_SENTINEL_HOSTS) is set too; remove one of them",
    },
    Refusal {
        environment: &[("REDIS_HOST", "valkey")],
        file: "[[partition]]\nnumber = 0\nhost = \"valkey-p0\"",
        cores: FOUR,
        line: "partition 0 has a [[partition]] server of its own and [store] host (REDIS_HOST) is \
               set too; remove one of them",
    },
    file(
        "[[partition]]\nnumber = 0\nhost = \"a\"\n[[partition]]\nnumber = 0\nhost = \"b\"",
        "[[partition]] number 0 is there twice; keep one of them",
    ),
    file(
        "[[partition]]\nnumber = 1\nhost = \"a\"",
        "[[partition]] number 1 does not exist: with a partition count of 1 they are 0 to 0; \
         remove it or correct [topology] partition_count (MATCHING_PARTITION_COUNT)",
    ),
    file(
        "[[partition]]\nnumber = 0\nhost = \"a\"\nport = 0",
        "[[partition]] number 0 has port 0; choose a number from 1 to 65535",
    ),
    environment(
        &[("REDIS_HOST", "redis://valkey")],
        "[store] host (REDIS_HOST) is \"redis://valkey\"; write a host name or an address",
    ),
    environment(
        &[("REDIS_PORT", "tcp://10.0.0.1:6379")],
        "[store] port (REDIS_PORT) is \"tcp://10.0.0.1:6379\"; write a whole number in digits",
    ),
];

pub(crate) const LOGINS: &[Refusal] = &[
    environment(
        &[("RABBITMQ_URI", "amqp://user:hunter2@127.0.0.1:5672/%2f")],
        "[broker] uri (RABBITMQ_URI) holds a user or a password, and addresses end up in logs; \
         take it out and set [broker] username (RABBITMQ_USERNAME) and [broker] password \
         (RABBITMQ_PASSWORD) or [broker] password_file (RABBITMQ_PASSWORD_FILE)",
    ),
    environment(
        &[("RABBITMQ_URI", "amqps://127.0.0.1:5671/%2f")],
        "[broker] uri (RABBITMQ_URI) asks for TLS, which is not supported yet; write it like \
         amqp://host:5672/%2f",
    ),
    environment(
        &[("RABBITMQ_URI", "127.0.0.1:5672")],
        "[broker] uri (RABBITMQ_URI) does not begin with amqp://; write it like \
         amqp://host:5672/%2f",
    ),
    environment(
        &[("RABBITMQ_URI", "amqp://127.0.0.1:5672/%2f?heartbeat=5")],
        "[broker] uri (RABBITMQ_URI) has parameters, and none is read; write it like \
         amqp://host:5672/%2f",
    ),
    environment(
        &[("RABBITMQ_URI", "amqp://127.0.0.1:0/%2f")],
        "[broker] uri (RABBITMQ_URI) has no usable host and port; write it like \
         amqp://host:5672/%2f",
    ),
    environment(
        &[("RABBITMQ_URI", "amqp://127.0.0.1:5672/a/b")],
        "[broker] uri (RABBITMQ_URI) has no usable virtual host; write it like \
         amqp://host:5672/%2f",
    ),
    environment(
        &[("RABBITMQ_URI", "amqp://a/x,amqp://b/y")],
        "[broker] uri (RABBITMQ_URI) names more than one virtual host; write it like \
         amqp://host:5672/%2f",
    ),
    environment(
        &[("RABBITMQ_URI", "amqp://a,amqp://a:5672/%2f")],
        "[broker] uri (RABBITMQ_URI) names one node twice; write it like amqp://host:5672/%2f",
    ),
    file(
        "[broker]\nuri = []",
        "[broker] uri (RABBITMQ_URI) is an empty list; write it like amqp://host:5672/%2f",
    ),
    file(
        "[broker]\nuri = [\"amqp://a\", 7]",
        "{dir}/conductor.toml line 2: write this value as one text in quotes",
    ),
    environment(
        &[("RABBITMQ_USERNAME", "cell")],
        "[broker] username (RABBITMQ_USERNAME) is set without a password; set [broker] password \
         (RABBITMQ_PASSWORD) or [broker] password_file (RABBITMQ_PASSWORD_FILE)",
    ),
    environment(
        &[("REDIS_USERNAME", "cell")],
        "[store] username (REDIS_USERNAME) is set without a password; set [store] password \
         (REDIS_PASSWORD) or [store] password_file (REDIS_PASSWORD_FILE)",
    ),
    environment(
        &[
            ("REDIS_PASSWORD", "hunter2"),
            ("REDIS_PASSWORD_FILE", "{dir}/password"),
        ],
        "[store] password (REDIS_PASSWORD) and [store] password_file (REDIS_PASSWORD_FILE) are \
         both set; keep one of them",
    ),
    file(
        "[broker]\npassword = \"hunter2\"\npassword_file = \"{dir}/password\"",
        "[broker] password (RABBITMQ_PASSWORD) and [broker] password_file \
         (RABBITMQ_PASSWORD_FILE) are both set; keep one of them",
    ),
    file(
        "[sentinel]\npassword = \"\"",
        "[sentinel] password (REDIS_SENTINEL_PASSWORD) is empty; give it a value or leave it out",
    ),
    environment(
        &[("REDIS_SENTINEL_PASSWORD_FILE", "{dir}/absent")],
        "[sentinel] password_file (REDIS_SENTINEL_PASSWORD_FILE) names {dir}/absent, which cannot \
         be read: No such file or directory (os error 2); correct the path or its permissions",
    ),
    environment(
        &[("RABBITMQ_PASSWORD_FILE", "{dir}/empty")],
        "[broker] password_file (RABBITMQ_PASSWORD_FILE) names {dir}/empty, which is empty; write \
         the password into it as its only line",
    ),
    environment(
        &[("REDIS_PASSWORD_FILE", "{dir}/lines")],
        "[store] password_file (REDIS_PASSWORD_FILE) names {dir}/lines, which has more than one \
         line; write the password into it as its only line",
    ),
    file(
        "[store]\npassword = 12345",
        "{dir}/conductor.toml line 2: write this value as one text in quotes",
    ),
    file(
        "[store]\npassword = hunter2",
        "{dir}/conductor.toml line 2: write this value as one text in quotes",
    ),
];

const BEHAVIOUR: &[Refusal] = &[
    environment(
        &[("MATCHING_DURABILITY", "aof")],
        "[durability] policy (MATCHING_DURABILITY) is \"aof\"; write aof-replicated or memory",
    ),
    environment(
        &[("MATCHING_DURABILITY_TIMEOUT_MS", "0")],
        "[durability] timeout_ms (MATCHING_DURABILITY_TIMEOUT_MS) is 0; choose a number from 10 to \
         60000",
    ),
    environment(
        &[("MATCHING_DURABILITY_TIMEOUT_MS", "2000ms")],
        "[durability] timeout_ms (MATCHING_DURABILITY_TIMEOUT_MS) is \"2000ms\"; write a whole \
         number in digits",
    ),
    environment(
        &[("MATCHING_REPLICAS", "0")],
        "[durability] replicas (MATCHING_REPLICAS) is 0 under aof-replicated; set it to 1 or more, \
         or choose memory in [durability] policy (MATCHING_DURABILITY)",
    ),
    environment(
        &[("MATCHING_GROUP_COMMANDS_MAX", "0")],
        "[group] commands_max (MATCHING_GROUP_COMMANDS_MAX) is 0; choose a number from 1 to 4096",
    ),
    environment(
        &[("MATCHING_GROUP_WRITES_MAX", "1_000_000")],
        "[group] writes_max (MATCHING_GROUP_WRITES_MAX) is \"1_000_000\"; write a whole number in \
         digits",
    ),
    environment(
        &[("MATCHING_GROUP_WRITES_MAX", "999999999999")],
        "[group] writes_max (MATCHING_GROUP_WRITES_MAX) is 999999999999; choose a number from 1 \
         to 65536",
    ),
    environment(
        &[("MATCHING_RESULT_RETENTION_SECONDS", "0")],
        "[results] retention_seconds (MATCHING_RESULT_RETENTION_SECONDS) is 0; choose a number \
         from 60 to 315360000",
    ),
    environment(
        &[("MATCHING_EVENT_STREAM_ENTRIES_MAX", "0")],
        "[events] stream_entries_max (MATCHING_EVENT_STREAM_ENTRIES_MAX) is 0; choose a number \
         from 1 to 1000000000",
    ),
    environment(
        &[("MATCHING_WATCHDOG_MS", "0")],
        "[watchdog] silence_ms (MATCHING_WATCHDOG_MS) is 0; choose a number from 1000 to 3600000",
    ),
    environment(
        &[("MATCHING_SPIN_US", "10001")],
        "[cores] spin_us (MATCHING_SPIN_US) is 10001; choose a number from 0 to 10000",
    ),
    environment(
        &[("MATCHING_OUTBOX_WINDOW", "0")],
        "[outbox] window (MATCHING_OUTBOX_WINDOW) is 0; choose a number from 1 to 65536",
    ),
    environment(
        &[("MATCHING_OUTBOX_BATCH", "0")],
        "[outbox] batch (MATCHING_OUTBOX_BATCH) is 0; choose a number from 1 to 65536",
    ),
    environment(
        &[("MATCHING_OUTBOX_LEASE_MS", "3000")],
        "[outbox] lease_ms (MATCHING_OUTBOX_LEASE_MS) is 3000, shorter than two waits for \
         durability; set it to 4000 or more, or lower [durability] timeout_ms \
         (MATCHING_DURABILITY_TIMEOUT_MS)",
    ),
    environment(
        &[("MATCHING_ADMIN_ADDRESS", "localhost:9601")],
        "[admin] address (MATCHING_ADMIN_ADDRESS) is \"localhost:9601\"; write an address and a \
         port, like 127.0.0.1:9601 or [::1]:9601",
    ),
    environment(
        &[("MATCHING_OUTBOX_ADMIN_ADDRESS", "127.0.0.1")],
        "[outbox] admin_address (MATCHING_OUTBOX_ADMIN_ADDRESS) is \"127.0.0.1\"; write an address \
         and a port, like 127.0.0.1:9601 or [::1]:9601",
    ),
    file(
        "[[pair]]\nid = 12\nprice_decimals = 13\namount_decimals = 8\nquote_decimals = 2",
        "[[pair]] id 12: price_decimals is 13; choose a number from 0 to 12",
    ),
    file(
        "[[pair]]\nid = 4294967296\nprice_decimals = 2\namount_decimals = 8\nquote_decimals = 2",
        "[[pair]] id 4294967296: id is 4294967296; choose a number from 0 to 4294967295",
    ),
    file(
        "[[pair]]\nid = 1\nprice_decimals = 2\namount_decimals = 8\nquote_decimals = 2\n\
         [[pair]]\nid = 1\nprice_decimals = 2\namount_decimals = 8\nquote_decimals = 2",
        "[[pair]] id 1 is there twice; keep one of them",
    ),
];

const CORES: &[Refusal] = &[
    Refusal {
        environment: &[
            ("MATCHING_PARTITION_COUNT", "2"),
            ("MATCHING_PARTITION", "0,1"),
        ],
        file: "",
        cores: &[0, 1],
        line: "the I/O and the partitions need 3 cores, one each, and this process may \
               use 2; serve fewer partitions, allow it more cores, or set [cores] share \
               (MATCHING_SHARE_CORES) to true",
    },
    Refusal {
        environment: &[],
        file: "",
        cores: &[0],
        line: "the I/O and the partitions need 2 cores, one each, and this process may \
               use 1; serve fewer partitions, allow it more cores, or set [cores] share \
               (MATCHING_SHARE_CORES) to true",
    },
    environment(
        &[("MATCHING_IO_CORE", "9")],
        "[cores] io (MATCHING_IO_CORE) names core 9, which this process may not use; choose from \
         0, 1, 2, 3",
    ),
    environment(
        &[("MATCHING_CORES", "4")],
        "[cores] partitions (MATCHING_CORES) names core 4, which this process may not use; choose \
         from 0, 1, 2, 3",
    ),
    environment(
        &[("MATCHING_IO_CORE", "1"), ("MATCHING_CORES", "1")],
        "core 1 is given to more than one of the I/O and the partitions; give each its own in \
         [cores] io (MATCHING_IO_CORE) and [cores] partitions (MATCHING_CORES), or set [cores] \
         share (MATCHING_SHARE_CORES) to true",
    ),
    environment(
        &[("MATCHING_CORES", "1,2")],
        "[cores] partitions (MATCHING_CORES) is a list of length 2 and the list of partitions has \
         length 1; name one core for each partition",
    ),
    environment(
        &[("MATCHING_SHARE_CORES", "yes")],
        "[cores] share (MATCHING_SHARE_CORES) is \"yes\"; write true or false",
    ),
];

pub(crate) const ALL: &[&[Refusal]] = &[TOPOLOGY, NAMES, STORES, LOGINS, BEHAVIOUR, CORES];
