#!/bin/sh
# Starts one Sentinel for all groups of the cells.
#
# Its file lives on a volume: a Sentinel writes there which server is the primary and what it has
# voted for, and must find both again. Passwords are renewed at every start.
#
# NAME          how the others reach this Sentinel
# GROUPS_LIST   the groups, as "name=primary name=primary"
set -eu
umask 077
data=${DATA:-/data} secrets=${SECRETS:-/run/secrets} port=${PORT:-26379}
server_port=${SERVER_PORT:-6379} conf=$data/sentinel.conf

if [ ! -e "$conf" ]; then
    {
        echo "port $port"
        echo "dir $data"
        echo "protected-mode no"
        echo "sentinel resolve-hostnames yes"
        echo "sentinel announce-hostnames yes"
        echo "sentinel announce-ip $NAME"
        echo "sentinel announce-port $port"
        for group in $GROUPS_LIST; do
            echo "sentinel monitor ${group%%=*} ${group#*=} $server_port 2"
            echo "sentinel down-after-milliseconds ${group%%=*} 3000"
            echo "sentinel failover-timeout ${group%%=*} 10000"
            echo "sentinel parallel-syncs ${group%%=*} 1"
        done
    } > "$conf.new"
    mv "$conf.new" "$conf"
fi
own=$(tr -d '\r\n' < "$secrets/sentinel_password")
server=$(tr -d '\r\n' < "$secrets/valkey_sentinel_password")
grep -Ev '^(user|requirepass|sentinel (auth-user|auth-pass|sentinel-pass)) ' "$conf" > "$conf.new"
{
    echo "requirepass $own"
    echo "sentinel sentinel-pass $own"
    for group in $GROUPS_LIST; do
        echo "sentinel auth-user ${group%%=*} sentinel"
        echo "sentinel auth-pass ${group%%=*} $server"
    done
} >> "$conf.new"
mv "$conf.new" "$conf"
exec valkey-sentinel "$conf"
