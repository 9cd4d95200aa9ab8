#!/bin/bash
# Sends the mails of the tube shell-mail until it is stopped. Use: bash work.sh
set -euo pipefail
exec 3<>"/dev/tcp/${BEANSTALKD_HOST:-127.0.0.1}/${BEANSTALKD_PORT:-11300}"

# ask sends a command, and reads the line of the reply.
ask() {
	printf '%s\r\n' "$1" >&3
	IFS= read -r reply <&3
	reply=${reply%$'\r'}
}

ask 'watch shell-mail'
ask 'ignore default'
while ask reserve; do
	read -r word job size <<<"$reply"
	[ "$word" = RESERVED ] || { echo "reserve: $reply" >&2; exit 1; }
	LC_ALL=C IFS= read -r -N "$((size + 2))" to <&3
	to=${to%$'\r\n'}
	if [ "$to" = nobody ]; then
		ask "bury $job 100"
		echo "buried job $job: $to has no address" >&2
	else
		echo "sent to $to"
		ask "delete $job"
	fi
done
