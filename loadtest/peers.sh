#!/bin/bash
# make bench-peers: jobs through polystalkd and through other servers, each with one core. It writes
# the tables of loadtest/PEERS.md, below the line "<!-- measured -->", and leaves out a server that is
# not installed. It runs ROUNDS=5 rounds of DURATION=2s from the top folder, after make build.
set -euo pipefail

nats_version=v2.15.2
out=loadtest/out page=loadtest/PEERS.md
rabbitmq=/usr/lib/rabbitmq/bin/rabbitmq-server # not the wrapper on the path, which changes the user
mkdir -p $out

missing() { echo "bench-peers: $1 is left out; to measure it too: $2" >&2; }

memory=(--compare 'polystalkd=./bin/polystalkd -l 127.0.0.1 -p {port}')
flush=(--compare 'polystalkd=./bin/polystalkd -l 127.0.0.1 -p {port} -b {dir}')

if command -v beanstalkd >/dev/null; then
	memory+=(--compare 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port}')
	flush+=(--compare 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port} -b {dir} -f0')
else
	missing beanstalkd 'apt-get install beanstalkd'
fi

if command -v redis-server >/dev/null; then # --save without a value: no snapshots
	redis='redis=redis:redis-server --bind 127.0.0.1 --port {port} --dir {dir}'
	memory+=(--compare "$redis --appendonly no --save")
	flush+=(--compare "$redis --appendonly yes --appendfsync always --save")
else
	missing Redis 'apt-get install redis-server'
fi

if GOBIN=$PWD/bin go install github.com/nats-io/nats-server/v2@$nats_version; then
	echo 'jetstream { sync_interval: always }' >$out/nats.conf
	nats='nats=nats:./bin/nats-server -a 127.0.0.1 -p {port} -js -sd {dir}'
	memory+=(--compare "$nats")
	flush+=(--compare "$nats -c $out/nats.conf")
else
	missing 'NATS JetStream' "go install github.com/nats-io/nats-server/v2@$nats_version"
fi

if [ -x $rabbitmq ]; then
	# The port mapper of Erlang would go on when the servers have ended, so it is started and ended here.
	export ERL_EPMD_PORT=10671 ERL_CRASH_DUMP_SECONDS=0
	epmd -address 127.0.0.1 -port $ERL_EPMD_PORT >$out/epmd.log 2>&1 &
	trap "kill $!" EXIT
	# detached: the script becomes the server, which then gets the signals. The scheduler must not
	# spin while it has nothing to do, or idle time counts as CPU.
	export detached=1 RABBITMQ_NODENAME=peers@localhost RABBITMQ_DIST_PORT=10672 RABBITMQ_LOGS=-
	export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
	export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}'
	server="rabbitmq=amqp:env HOME={dir} RABBITMQ_MNESIA_BASE={dir} RABBITMQ_LOG_BASE={dir} RABBITMQ_ENABLED_PLUGINS_FILE={dir}/plugins RABBITMQ_NODE_PORT={port} $rabbitmq"
	memory+=(--compare "$server")
	flush+=(--compare "$server")
else
	missing RabbitMQ 'apt-get install rabbitmq-server'
fi
missing Faktory "it is in neither Debian nor a Go module that can be had"

before=$(cut -d" " -f1-3 /proc/loadavg)
settings=(--server-cpus 0 --load-cpus 1 --rounds "${ROUNDS:-5}" --duration "${DURATION:-2s}" --warmup 1s)
go build -o bin/loadtest ./loadtest
./bin/loadtest "${settings[@]}" "${memory[@]}" --load 'job name=in-memory' --json $out/memory.json --markdown $out/memory.md
./bin/loadtest "${settings[@]}" "${flush[@]}" --load 'job name=flushed durable=true' --json $out/flush.json --markdown $out/flush.md

{
	sed '/^<!-- measured -->$/q' $page
	printf '\nThe load average of the machine was %s before the measurement, and %s after it.\n' "$before" "$(cut -d" " -f1-3 /proc/loadavg)"
	if [ "${before%%.*}" -gt 0 ]; then
		echo 'Other programs used the cores too. Only the ratios of CPU tell the servers apart then: a server that sleeps often waits for a core'
		echo 'each time, so its rate and its latencies say more about the other programs. Measure again on a quiet machine.'
	fi
	for part in 'memory In memory' 'flush With a flush before each reply'; do
		printf '\n## %s\n\n' "${part#* }"
		sed -e 1,4d -e 's/^## /### /' -e 's|`go run ./loadtest|`./bin/loadtest|' "$out/${part%% *}.md"
	done
} >$out/peers.md
mv $out/peers.md $page
