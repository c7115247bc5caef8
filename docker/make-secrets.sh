#!/bin/sh
# Makes the passwords of the compose file, each once; those that are there stay.
#
# The folder is closed to others. The files in it are readable, because a container's user reads
# them through a mount of the file alone. Hexadecimal, so that no settings format needs quoting.
set -eu
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 700 "$folder"
for name in rabbitmq_password sentinel_password valkey_conductor_password \
    valkey_replication_password valkey_sentinel_password; do
    if [ ! -s "$folder/$name" ]; then
        od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n' > "$folder/$name"
        chmod 644 "$folder/$name"
    fi
done
