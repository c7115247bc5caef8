#!/bin/sh
# Starts RabbitMQ with one user whose password comes from a secret.
#
# The user is made when the broker's database is made, with the rights that a cell needs: its own
# queues and exchanges, and the default exchange for replies. Change the password later
# with "rabbitmqctl change_password".
#
# Read and write are the same on purpose: RabbitMQ 3.10 takes the one for the other, and reading the
# default exchange gives nobody anything.
set -eu
umask 027
cat > /etc/rabbitmq/conf.d/20-cell.conf <<CONF
default_user = conductor
default_pass = $(tr -d '\r\n' < /run/secrets/rabbitmq_password)
default_user_tags.administrator = false
default_user_tags.monitoring = true
default_permissions.configure = ^matching[.:].*
default_permissions.read = ^(matching[.:].*|amq[.]default)$
default_permissions.write = ^(matching[.:].*|amq[.]default)$
# A cell that waits for its replica keeps its deliveries; the broker must not take them away.
consumer_timeout = 86400000
# A command has at most 1 MiB. Deliveries are handed out by number, whatever their size.
max_message_size = 1048576
# A quorum queue's log stays in memory until its file is full, which is 512 MiB unless set: more
# than a gigabyte of memory, and a restart that reads all of it.
raft.wal_max_size_bytes = 67108864
CONF
chown rabbitmq:rabbitmq /etc/rabbitmq/conf.d/20-cell.conf
exec docker-entrypoint.sh rabbitmq-server
