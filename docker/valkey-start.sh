#!/bin/sh
# Starts one Valkey server of a cell.
#
# The settings file lives on the data volume and is written once. Sentinel rewrites it at a
# failover, so a server that was demoted comes back as a replica: one that always starts as the
# primary can wipe the only good copy. Users are made from the secrets at every start and kept
# in memory only; the password for the primary is renewed in the file.
#
# NAME          how the others reach this server
# PRIMARY       the server to follow on the very first start; empty on the first primary
set -eu
umask 077
data=${DATA:-/data} secrets=${SECRETS:-/run/secrets} run=${RUN:-/run/valkey} port=${PORT:-6379}
conf=$data/valkey.conf

hashed() { printf '#'; tr -d '\r\n' < "$secrets/$1" | sha256sum | cut -d ' ' -f 1; }

# The default user is off and has no password, so nobody can log in as it. It keeps its rights all the
# same, because the server loads its append-only file as that user and asks for them at every EXEC:
# without them a server that is started again has lost every transaction, and its replicas with it.
# The conductor gets its keys and nothing dangerous beyond what its boot checks read; replicas and
# Sentinels get what their documentation asks for.
cat > "$run/users.acl" <<ACL
user default off resetpass ~* &* +@all
user conductor on $(hashed valkey_conductor_password) ~matching:* &* +@all -@dangerous +config|get +role +info +acl|dryrun
user replication on $(hashed valkey_replication_password) +psync +replconf +ping
user sentinel on $(hashed valkey_sentinel_password) &* +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill +script|kill
ACL

if [ ! -e "$conf" ]; then
    cat > "$conf.new" <<CONF
port $port
dir $data
protected-mode no
appendonly yes
appendfsync always
no-appendfsync-on-rewrite no
save ""
io-threads 1
maxmemory-policy noeviction
replica-announce-ip $NAME
replica-announce-port $port
${PRIMARY:+replicaof $PRIMARY}
CONF
    mv "$conf.new" "$conf"
fi
# What may change between two starts of the same server.
grep -Ev '^(masteruser|masterauth|primaryuser|primaryauth|aclfile|user) ' "$conf" > "$conf.new" || true
cat >> "$conf.new" <<CONF
masteruser replication
masterauth $(tr -d '\r\n' < "$secrets/valkey_replication_password")
aclfile $run/users.acl
CONF
mv "$conf.new" "$conf"
exec valkey-server "$conf"
