//! What a store says that it is, by `ROLE`.

/// The part that a server plays in its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary {
        /// How many replicas are connected to it.
        replicas: usize,
    },
    /// It follows another server.
    Replica {
        /// That server's port.
        of: u16,
        /// How far it is in following it; `connected` when in step.
        state: String,
    },
}

impl Role {
    /// Reads the answer to `ROLE`.
    pub(super) fn read(answer: &redis::Value) -> std::result::Result<Self, String> {
        Self::parse(answer).ok_or_else(|| format!("ROLE answers {answer:?}"))
    }

    fn parse(answer: &redis::Value) -> Option<Self> {
        let redis::Value::Array(parts) = answer else {
            return None;
        };
        let text = |part: &redis::Value| redis::from_redis_value_ref::<String>(part).ok();
        match (text(parts.first()?)?.as_str(), &parts[1..]) {
            ("master", [_, redis::Value::Array(replicas), ..]) => Some(Self::Primary {
                replicas: replicas.len(),
            }),
            ("slave", [_, port, state, ..]) => Some(Self::Replica {
                of: redis::from_redis_value_ref(port).ok()?,
                state: text(state)?,
            }),
            _ => None,
        }
    }

    /// Whether it is in step with some primary.
    pub fn follows(&self) -> bool {
        matches!(self, Self::Replica { state, .. } if state == "connected")
    }

    /// Whether it is in step with the server on this port.
    pub fn follows_port(&self, port: u16) -> bool {
        self.follows() && matches!(self, Self::Replica { of, .. } if *of == port)
    }
}
